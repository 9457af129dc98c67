package lakeward.spark

import scala.collection.mutable

import org.apache.iceberg.spark.source.SparkTable
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.ExistenceJoin
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.delta.commands.cdc.CDCReader.DeltaCDFRelation
import org.apache.spark.sql.delta.files.{TahoeFileIndex, TahoeLogFileIndex}
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.json4s._
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, render}

/**
 * Finds the columns of tables and files that the columns and the rows of an analysed plan depend on.
 *
 * The answer is JSON: `leaves` has the tables and files that the plan reads, `columns` the name of
 * each output with what its values are computed from, `rows` what decides which rows there are. A
 * dependency is the number of a leaf and a column; an empty column means which rows the leaf has.
 * `memory`: some rows come from the memory of a program. `known` is false where a part of the plan
 * is not understood, and then `columns` and `rows` are incomplete.
 */
object Lineage {
  /** Before the name of a table, in the alias of a frame whose rows are those of that table. */
  val Mark = "lakeward table "

  def of(plan: LogicalPlan): String = compact(render(new PlanLineage(None).answer(plan)))

  /** `batch` is the plan of the micro-batch whose rows a frame in `plan` has. */
  def of(plan: LogicalPlan, batch: LogicalPlan): String =
    compact(render(new PlanLineage(Some(batch)).answer(plan)))
}

private class PlanLineage(batch: Option[LogicalPlan]) {
  private type Refs = Set[(Int, String)]
  private val nothing: Refs = Set.empty
  private val leaves = mutable.ArrayBuffer.empty[JValue]
  private val values = mutable.Map.empty[ExprId, Refs]
  private val common = mutable.Map.empty[Long, (Refs, Seq[Refs])]
  private var memory = false
  private var known = true

  def answer(plan: LogicalPlan): JValue = {
    val (names, query) = plan match {
      case write: V2WriteCommand if !write.isByName =>
        (write.table.output.map(_.name), write.query)
      case write: V2WriteCommand => (write.query.output.map(_.name), write.query)
      case other => (other.output.map(_.name), other)
    }
    val found = rows(query)
    val columns = query.output.map(of)
    if (names.size != columns.size) known = false
    ("known" -> known) ~ ("memory" -> memory) ~ ("leaves" -> leaves.toList) ~
      ("columns" -> names.zip(columns).map { case (name, refs) => JArray(List(name, listed(refs))) }) ~
      ("rows" -> listed(found))
  }

  private def listed(refs: Refs): JValue =
    refs.toList.sorted.map { case (leaf, column) => JArray(List(leaf, column)) }

  private def of(attribute: Attribute): Refs = values.getOrElse(attribute.exprId, unknown())

  private def unknown(): Refs = {
    known = false
    nothing
  }

  /** What decides about the rows of a plan; the values of its outputs are noted. */
  private def rows(plan: LogicalPlan): Refs = plan match {
    case leaf: LeafNode => leafRows(leaf)
    case WithCTE(child, definitions) =>
      definitions.foreach { one =>
        val found = rows(one.child)
        common(one.id) = (found, one.child.output.map(of))
      }
      rows(child)
    case Project(chosen, child) =>
      val found = rows(child)
      note(chosen)
      found
    case Filter(condition, child) => rows(child) ++ refs(condition)
    case Aggregate(groups, chosen, child, _) =>
      val found = rows(child) ++ groups.flatMap(refs)
      note(chosen)
      found
    case Window(functions, parts, order, child, _) =>
      val found = rows(child)
      val around = (parts ++ order).flatMap(refs).toSet
      functions.foreach(f => values(f.exprId) = refs(f) ++ around)
      found
    case Join(left, right, kind, condition, _) =>
      val found = rows(left) ++ rows(right) ++ condition.toSeq.flatMap(refs)
      kind match {
        case ExistenceJoin(exists) => values(exists.exprId) = found
        case _ =>
      }
      found
    case LateralJoin(left, right, _, condition) =>
      rows(left) ++ rows(right.plan) ++ condition.toSeq.flatMap(refs)
    case union: Union =>
      val sides = union.children.map(child => (rows(child), child.output.map(of)))
      union.output.zipWithIndex.foreach { case (attribute, n) =>
        values(attribute.exprId) = sides.flatMap(_._2(n)).toSet
      }
      sides.flatMap(_._1).toSet
    case both: SetOperation =>
      val left = (rows(both.left), both.left.output.map(of))
      val right = (rows(both.right), both.right.output.map(of))
      both.output.zip(left._2).foreach { case (attribute, own) => values(attribute.exprId) = own }
      left._1 ++ right._1 ++ left._2.flatten ++ right._2.flatten
    case Distinct(child) =>
      val found = rows(child)
      found ++ child.output.flatMap(of)
    case Deduplicate(keys, child) => rows(child) ++ keys.flatMap(of)
    case Sort(_, _, child, _) => rows(child)
    case GlobalLimit(_, child) => rows(child) ++ order(child)
    case LocalLimit(_, child) => rows(child) ++ order(child)
    case Offset(_, child) => rows(child) ++ order(child)
    case Tail(_, child) => rows(child) ++ order(child)
    case Expand(projections, output, child) =>
      val found = rows(child)
      output.zipWithIndex.foreach { case (attribute, n) =>
        values(attribute.exprId) = projections.flatMap(one => refs(one(n))).toSet
      }
      found
    case Generate(generator, _, _, _, made, child) =>
      val found = rows(child)
      val source = refs(generator)
      made.foreach(attribute => values(attribute.exprId) = source)
      found ++ source
    case SubqueryAlias(alias, child) if alias.name.startsWith(Lineage.Mark) =>
      source(child.output, "name" -> alias.name.stripPrefix(Lineage.Mark))
    case _: RepartitionOperation | _: ResolvedHint | _: SubqueryAlias | _: View | _: Sample |
        _: ReturnAnswer | _: CollectMetrics | _: EventTimeWatermark | _: RebalancePartitions =>
      rows(plan.children.head)
    case other =>
      other.children.foreach(rows)
      unknown()
  }

  private def leafRows(leaf: LeafNode): Refs = leaf match {
    case ref: CTERelationRef =>
      common.get(ref.cteId).fold(unknown()) { case (found, outputs) =>
        ref.output.zip(outputs).foreach { case (attribute, own) => values(attribute.exprId) = own }
        found
      }
    case _: OneRowRelation => nothing
    case _: Range => constant(leaf)
    case local: LocalRelation =>
      if (local.data.nonEmpty) memory = true
      constant(leaf)
    case relation: LogicalRelation => relation.relation match {
      case files: HadoopFsRelation => files.location match {
        case delta: TahoeFileIndex => source(leaf.output, table(delta.path.toString, version(delta)))
        case plain => source(leaf.output, "files" -> plain.rootPaths.map(_.toString).toList)
      }
      case changes: DeltaCDFRelation =>
        val path = changes.snapshotWithSchemaMode.snapshot.dataPath.toString
        source(leaf.output, table(path, None))
      case _ => opaque(leaf)
    }
    case relation: DataSourceV2Relation => iceberg(leaf, relation.table)
    case scan: DataSourceV2ScanRelation => iceberg(leaf, scan.relation.table)
    case scan: StreamingDataSourceV2ScanRelation => iceberg(leaf, scan.relation.table)
    case rows: LogicalRDD => batchRows(rows)
    case _ => opaque(leaf)
  }

  /** Spark gives the rows of a micro-batch without their plan, and with the attributes of it. */
  private def batchRows(leaf: LogicalRDD): Refs = {
    val own = leaf.output.map(_.exprId)
    // The command that hands the rows to the sink has the same output as its query.
    def has(plan: LogicalPlan) = !plan.isInstanceOf[Command] &&
      plan.nodeName != "WriteToMicroBatchDataSourceV1" && plan.output.map(_.exprId) == own
    batch.flatMap(_.find(has)) match {
      case Some(plan) if !plan.isInstanceOf[LogicalRDD] =>
        // Rows of earlier batches may be in the state, and the plan has the sources of this one.
        if (plan.exists(isStateful)) memory = true
        rows(plan)
      case _ => opaque(leaf)
    }
  }

  private def isStateful(plan: LogicalPlan): Boolean = plan match {
    case _: LeafNode | _: Project | _: Filter | _: Generate | _: Union | _: SubqueryAlias | _: View |
        _: EventTimeWatermark | _: CollectMetrics | _: RepartitionOperation | _: ResolvedHint |
        _: Sample =>
      false
    case Join(left, right, _, _, _) => left.isStreaming && right.isStreaming
    case other => other.isStreaming
  }

  private def iceberg(leaf: LeafNode, read: Table): Refs = read match {
    case lake: ReadOnly => iceberg(leaf, lake.wrapped)
    case found: SparkTable => source(leaf.output, table(found.table.location, None))
    case _ => opaque(leaf)
  }

  private def table(path: String, version: Option[Long]): JObject =
    ("table" -> path) ~ ("version" -> version)

  /** The version of a Delta table that a query names; without one, it is the newest. */
  private def version(index: TahoeFileIndex): Option[Long] = index match {
    case log: TahoeLogFileIndex if log.isTimeTravelQuery => Some(log.snapshotAtAnalysis.version)
    case _ => None
  }

  private def source(output: Seq[Attribute], described: JObject): Refs = {
    leaves += described
    val number = leaves.size - 1
    output.foreach(a => values(a.exprId) = Set((number, a.name)))
    Set((number, ""))
  }

  private def constant(leaf: LeafNode): Refs = {
    leaf.output.foreach(attribute => values(attribute.exprId) = nothing)
    nothing
  }

  private def opaque(leaf: LeafNode): Refs = {
    memory = true
    constant(leaf)
  }

  private def note(chosen: Seq[NamedExpression]): Unit = {
    // All first: a name may replace an attribute that another expression reads.
    val found = chosen.map(one => (one.exprId, refs(one)))
    found.foreach { case (id, own) => values(id) = own }
  }

  /** The columns by which rows are ordered before some are taken. */
  private def order(plan: LogicalPlan): Refs = plan match {
    case Sort(by, _, _, _) => by.flatMap(refs).toSet
    case one: UnaryNode if one.isInstanceOf[Project] || one.isInstanceOf[SubqueryAlias] ||
        one.isInstanceOf[LocalLimit] || one.isInstanceOf[Offset] ||
        one.isInstanceOf[GlobalLimit] || one.isInstanceOf[Filter] =>
      order(one.child)
    case _ => nothing
  }

  private def refs(expression: Expression): Refs = expression match {
    case attribute: Attribute => of(attribute)
    case OuterReference(outer) => refs(outer)
    case query: PlanExpression[_] =>
      val outer = query.children.flatMap(refs).toSet
      query.plan match {
        case plan: LogicalPlan =>
          val found = rows(plan)
          outer ++ found ++ plan.output.flatMap(of)
        case _ => unknown()
      }
    case other => other.children.flatMap(refs).toSet
  }
}
