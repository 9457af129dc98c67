package lakeward.spark

import scala.util.Try

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.connector.catalog.CatalogPlugin
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Refuses commands that change tables of a lake outside its transactions.
 *
 * The catalog refuses what Spark asks of it. Commands of Delta and Iceberg, such as OPTIMIZE and
 * VACUUM, do not ask: they take a table that can be read and change its files.
 */
class LakeExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectCheckRule((_: SparkSession) => Commands.check)
}

object Commands {
  private val Reads = Set("RefreshTable", "UncacheTable")

  /** Iceberg's own commands, which have a table's name as it is written. */
  private val Named = Set(
    "AddPartitionField", "DropPartitionField", "ReplacePartitionField", "SetIdentifierFields",
    "DropIdentifierFields", "SetWriteDistributionAndOrdering", "CreateOrReplaceBranch",
    "CreateOrReplaceTag", "DropBranch", "DropTag")

  /** Delta's commands for rows, whose first child is the table that they change. */
  private val OfRows = Set("DeltaDelete", "DeltaUpdateTable", "DeltaMergeInto")

  def check(plan: LogicalPlan): Unit = plan match {
    // The catalog is not asked for a table that the same statement reads.
    case write: V2WriteCommand => written(write.table)
    case delete: DeleteFromTable => written(delete.table)
    case update: UpdateTable => written(update.table)
    case merge: MergeIntoTable => written(merge.targetTable)
    case command if OfRows(command.nodeName) => written(command.children.head)
    case command: Command if !isRead(command.nodeName) =>
      (command.children ++ command.productIterator).foreach {
        case ResolvedTable(catalog, table, _, _) =>
          if (isLake(catalog) && !LakeCatalog.isElsewhere(table)) Refused(table.toString)
        case table: DeltaTableV2 => table.catalogTable.foreach(refuse)
        case name: Seq[_] if Named(command.nodeName) =>
          val parts = name.map(_.toString)
          val catalog = if (parts.size > 1) Try(catalogs.catalog(parts.head)).toOption else None
          if (isLake(catalog.getOrElse(catalogs.currentCatalog))) Refused(parts.mkString("."))
        case _ =>
      }
    case stream: WriteToStream => stream.catalogTable.foreach(refuse)
    case _ =>
  }

  private def isRead(command: String) =
    command.startsWith("Describe") || command.startsWith("Show") || Reads(command)

  private def written(target: LogicalPlan): Unit = target.foreach {
    case relation: DataSourceV2Relation =>
      for (table <- relation.identifier if relation.catalog.exists(isLake))
        if (!LakeCatalog.isElsewhere(table)) Refused(table.toString)
    case relation: LogicalRelation => relation.catalogTable.foreach(refuse)
    case _ =>
  }

  private def refuse(table: CatalogTable): Unit =
    if (table.identifier.catalog.exists(name => isLake(catalogs.catalog(name))))
      Refused(table.identifier.unquotedString)

  private def catalogs = SparkSession.active.sessionState.catalogManager
  private def isLake(catalog: CatalogPlugin) = catalog.isInstanceOf[LakeCatalog]
}

/** What is said of writes outside a transaction. */
object Refused {
  def apply(table: String): Nothing = because(
    s"Table $table belongs to the lake, which is read-only outside a transaction.")
  def creation(what: String): Nothing = because(
    s"$what would belong to the lake, which is read-only outside a transaction. Name a table" +
    " outside the lake with its catalog: spark_catalog.default.name.")

  private def because(reason: String): Nothing = throw new UnsupportedOperationException(
    s"$reason Nothing was changed. To change the lake, write in Python:" +
    " with lake.transaction(spark=spark) as tx: tx.sql(\"...\")")
}
