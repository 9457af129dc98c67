package lakeward.spark

import java.util.{Map => JavaMap, Set => JavaSet}
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchTableException}
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.delta.DeltaTimeTravelSpec
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.execution.QueryExecutionException
import org.apache.spark.sql.types.{StructType, TimestampType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.iceberg.spark.SparkCatalog

/**
 * All tables of a lake by name, of both formats, to be read.
 *
 * Every query asks the log for its tables, so it sees tables that were made later and the newest
 * committed version of each. Nothing is written: a lake is written inside its transactions.
 */
class LakeCatalog extends StagingTableCatalog with SupportsNamespaces with FunctionCatalog {
  private var catalog = ""
  private var store: Store = _
  private var warehouse = ""
  private var patience = 0L
  private val iceberg = new SparkCatalog

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {
    catalog = name
    store = new Store(options.asCaseSensitiveMap)
    warehouse = options.get("warehouse").stripSuffix("/")
    patience = options.getLong("publication-wait-seconds", 5)
    // Others move the pointers too, and a cached table does not notice.
    val own = Map("catalog-impl" -> classOf[IcebergTables].getName, "cache-enabled" -> "false")
    val both = options.asCaseSensitiveMap.asScala ++ own
    iceberg.initialize(name, new CaseInsensitiveStringMap(both.asJava))
  }

  override def name(): String = catalog
  override def defaultNamespace(): Array[String] = Array(Store.Default)

  override def listNamespaces(): Array[Array[String]] =
    (Store.Default +: store.heads().map(h => Store.shown(h.namespace))).distinct.sorted
      .map(Array(_)).toArray

  override def listNamespaces(namespace: Array[String]): Array[Array[String]] =
    if (namespace.isEmpty) listNamespaces()
    else if (namespaceExists(namespace)) Array.empty
    else throw new NoSuchNamespaceException(namespace)

  override def namespaceExists(namespace: Array[String]): Boolean =
    listNamespaces().exists(_.sameElements(namespace))

  override def loadNamespaceMetadata(namespace: Array[String]): JavaMap[String, String] =
    if (namespaceExists(namespace)) Map.empty[String, String].asJava
    else throw new NoSuchNamespaceException(namespace)

  override def listTables(namespace: Array[String]): Array[Identifier] = namespace match {
    case Array(one) if namespaceExists(namespace) =>
      store.heads(Some(one)).map(h => Identifier.of(namespace, h.name)).distinct.toArray
    case _ => throw new NoSuchNamespaceException(namespace)
  }

  override def loadTable(table: Identifier): Table =
    elsewhere(table)(_.loadTable(table)).orElse(delta(table, None))
      .getOrElse(readOnly(iceberg.loadTable(table)))

  override def loadTable(table: Identifier, version: String): Table =
    elsewhere(table)(_.loadTable(table, version))
      .orElse(delta(table, Some(DeltaTimeTravelSpec(None, Some(version.toLong), Some("sql")))))
      .getOrElse(readOnly(iceberg.loadTable(table, snapshot(table, version))))

  override def loadTable(table: Identifier, timestamp: Long): Table = {
    val moment = Literal(timestamp, TimestampType)
    elsewhere(table)(_.loadTable(table, timestamp))
      .orElse(delta(table, Some(DeltaTimeTravelSpec(Some(moment), None, Some("sql")))))
      .getOrElse(readOnly(iceberg.loadTable(table, timestamp)))
  }

  override def loadTable(table: Identifier, privileges: JavaSet[TableWritePrivilege]): Table =
    elsewhere(table)(_.loadTable(table, privileges)).getOrElse {
      // A table that does not exist is reported as such.
      loadTable(table)
      Refused(table.toString)
    }

  /** What can be asked of tables that are created by path. */
  override def capabilities(): JavaSet[TableCatalogCapability] = sparks.capabilities

  override def tableExists(table: Identifier): Boolean =
    if (LakeCatalog.isElsewhere(table)) elsewhere(table)(_.tableExists(table)).get
    else super.tableExists(table)

  override def createTable(table: Identifier, info: TableInfo): Table =
    elsewhere(table)(_.createTable(table, info)).getOrElse(Refused.creation(s"Table $table"))
  override def stageCreate(table: Identifier, info: TableInfo): StagedTable =
    elsewhere(table)(_.stageCreate(table, info)).getOrElse(Refused.creation(s"Table $table"))
  override def stageReplace(table: Identifier, info: TableInfo): StagedTable =
    elsewhere(table)(_.stageReplace(table, info)).getOrElse(Refused(table.toString))
  override def stageCreateOrReplace(table: Identifier, info: TableInfo): StagedTable =
    elsewhere(table)(_.stageCreateOrReplace(table, info)).getOrElse(Refused(table.toString))
  override def alterTable(table: Identifier, changes: TableChange*): Table =
    elsewhere(table)(_.alterTable(table, changes: _*)).getOrElse(Refused(table.toString))
  override def dropTable(table: Identifier): Boolean =
    elsewhere(table)(_.dropTable(table)).getOrElse(tableExists(table) && Refused(table.toString))
  override def renameTable(table: Identifier, to: Identifier): Unit =
    Refused(table.toString)
  override def createNamespace(n: Array[String], properties: JavaMap[String, String]): Unit =
    Refused.creation(s"Namespace ${n.mkString(".")}")
  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit =
    Refused(namespace.mkString("", ".", ".*"))
  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean =
    Refused(namespace.mkString("", ".", ".*"))

  override def listFunctions(namespace: Array[String]): Array[Identifier] =
    if (namespaceExists(namespace)) Array.empty else iceberg.listFunctions(namespace)
  override def loadFunction(function: Identifier): UnboundFunction = iceberg.loadFunction(function)

  /** A Delta table, if it is one. */
  private def delta(table: Identifier, travel: => Option[DeltaTimeTravelSpec]): Option[Table] =
    head(table).filter(_.format == "delta").map { head =>
      val place = if (head.location.startsWith("/") || head.location.contains("://")) head.location
        else s"$warehouse/${head.location}"
      val path = new Path(place)
      val entry = CatalogTable(
        identifier = TableIdentifier(table.name, Some(table.namespace.head), Some(catalog)),
        tableType = CatalogTableType.EXTERNAL,
        storage = CatalogStorageFormat.empty.copy(locationUri = Some(path.toUri)),
        schema = new StructType(),
        provider = Some("delta"))
      def open() =
        DeltaTableV2(SparkSession.active, path, catalogTable = Some(entry), timeTravelOpt = travel)
      if (travel.isDefined) open() else published(table, head, () => open())
    }

  /** The newest version: a commit is in the log a moment before its file is published. */
  private def published(table: Identifier, head: Head, open: () => DeltaTableV2): Table = {
    val deadline = System.nanoTime + TimeUnit.SECONDS.toNanos(patience)
    var found = open()
    while (found.initialSnapshot.version < head.version && System.nanoTime < deadline) {
      Thread.sleep(50)
      found = open()
    }
    if (found.initialSnapshot.version < head.version)
      throw new QueryExecutionException(
        s"Version ${head.version} of table $table is committed, and only version" +
        s" ${found.initialSnapshot.version} is published: the process that committed it has" +
        " ended, or cannot write. Open the lake, for example with `lakeward doctor`, which" +
        " publishes it.")
    found
  }

  private def head(table: Identifier): Option[Head] = table.namespace match {
    case Array(one) => store.head(one, table.name)
    case _ => None
  }

  /** Iceberg's snapshot for a version of the lake, as text; other text as it is. */
  private def snapshot(table: Identifier, version: String): String = {
    val found = for {
      head <- head(table)
      wanted <- version.toLongOption if wanted <= head.version
    } yield store.commits(head.tableId, wanted).iterator
      .map(info => LakeCatalog.Json.readTree(info).path("extra").path("snapshot_id"))
      .find(_.isNumber).map(_.asText).getOrElse(throw new IllegalArgumentException(
        s"Version $version of table $table is empty: Iceberg has no snapshot of it."))
    found.getOrElse(version)
  }

  /** Leaves to Spark's own catalog what is no table of the lake. */
  private def elsewhere[A](table: Identifier)(act: StagingTableCatalog => A): Option[A] =
    if (LakeCatalog.isElsewhere(table)) Some(act(sparks))
    else if (table.name.contains("/")) throw new NoSuchTableException(table)
    else None

  private def sparks: StagingTableCatalog =
    SparkSession.active.sessionState.catalogManager.catalog("spark_catalog")
      .asInstanceOf[StagingTableCatalog]

  private def readOnly(table: Table): Table = table match {
    case readable: SupportsRead with SupportsMetadataColumns => new ReadOnly(readable)
    case _ => throw new NoSuchTableException(Identifier.of(Array.empty, table.name))
  }
}

object LakeCatalog {
  private val Json = new ObjectMapper()

  private val OfTransaction = "txn_[0-9a-f]{16}_.*__written".r

  /** Whether a name is a path to a Delta table, delta.`/data/t`, or a branch of a transaction. */
  def isElsewhere(table: Identifier): Boolean = table.namespace match {
    case Array(one) =>
      one.toLowerCase == "delta" && table.name.contains("/") || OfTransaction.matches(one)
    case _ => false
  }
}

/** An Iceberg table that refuses to be written. */
class ReadOnly(table: SupportsRead with SupportsMetadataColumns)
    extends SupportsRead with SupportsWrite with SupportsMetadataColumns {
  override def name(): String = table.name
  override def id(): String = table.id
  override def version(): String = table.version
  override def schema(): StructType = table.schema
  override def columns(): Array[Column] = table.columns
  override def partitioning(): Array[Transform] = table.partitioning
  override def properties(): JavaMap[String, String] = table.properties
  override def metadataColumns(): Array[MetadataColumn] = table.metadataColumns
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    table.newScanBuilder(options)
  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = Refused(table.name)
  override def capabilities(): JavaSet[TableCapability] = table.capabilities

  override def equals(other: Any): Boolean = other match {
    case that: ReadOnly => table == that.wrapped
    case _ => false
  }
  override def hashCode(): Int = table.hashCode
  override def toString: String = table.toString
  private[spark] def wrapped: Table = table
}
