package lakeward.spark

import java.sql.{Connection, Driver, ResultSet}
import java.util.{Map => JavaMap, Properties}

import scala.jdk.CollectionConverters._
import scala.util.Using

/** A table as the log has it: where it is, and its newest committed version. */
case class Head(
    tableId: Long, namespace: String, name: String, format: String, location: String, version: Long)

/** Reads the lake's log by JDBC. A connection is open for one question only. */
class Store(options: JavaMap[String, String]) {
  private val uri = options.get("uri")
  private val properties = {
    val out = new Properties()
    for ((key, value) <- options.asScala if key.toLowerCase.startsWith("jdbc."))
      out.setProperty(key.substring("jdbc.".length), value)
    // Never makes a file where a lake was moved away, and never writes.
    if (isSqlite) out.setProperty("open_mode", "1")
    out
  }

  /** The tables of the lake by name; of a namespace where one is given. */
  def heads(namespace: Option[String] = None): Seq[Head] = {
    val all = rows(s"${Store.Heads} ORDER BY namespace, name")(Store.head)
    namespace.fold(all)(wanted => all.filter(h => Store.shown(h.namespace) == wanted))
  }

  /** A table. Spark has one name for `t` and `default.t`: if the lake has both, it is refused. */
  def head(namespace: String, name: String): Option[Head] = {
    val own = if (namespace == Store.Default) "" else namespace
    val found = rows(s"${Store.Heads} AND name = ? AND namespace IN (?, ?)",
      name, own, namespace)(Store.head)
    if (found.size > 1)
      throw new IllegalArgumentException(
        s"The lake has the tables $name and $namespace.$name, which have one name in Spark." +
        " Read them in a transaction of the lake, or rename one of them.")
    found.headOption
  }

  /** The current metadata document of an Iceberg table. */
  def pointer(namespace: String, name: String): Option[String] =
    rows("""SELECT metadata_location FROM iceberg_tables
           |WHERE catalog_name = 'lakeward' AND table_namespace = ? AND table_name = ?""".stripMargin,
      namespace, name)(_.getString(1)).headOption

  /** The commits of a table up to a version, newest first, as the log keeps them. */
  def commits(tableId: Long, version: Long): Seq[String] =
    rows("""SELECT info FROM lakeward_commit WHERE table_id = ? AND version <= ?
           |ORDER BY version DESC LIMIT 1000""".stripMargin, tableId, version)(_.getString(1))

  private def isSqlite = uri.startsWith("jdbc:sqlite:")

  private def rows[A](sql: String, values: Any*)(read: ResultSet => A): Seq[A] =
    Using.resource(connect()) { connection =>
      Using.resource(connection.prepareStatement(sql)) { statement =>
        for ((value, at) <- values.zipWithIndex) statement.setObject(at + 1, value)
        Using.resource(statement.executeQuery()) { found =>
          Iterator.continually(found).takeWhile(_.next()).map(read).toVector
        }
      }
    }

  private def connect(): Connection = {
    // Spark loads jars after Java has looked for drivers, so that DriverManager knows none of them.
    val driver = if (isSqlite) "org.sqlite.JDBC" else "org.postgresql.Driver"
    Class.forName(driver, true, getClass.getClassLoader).getDeclaredConstructor().newInstance()
      .asInstanceOf[Driver].connect(uri, properties)
  }
}

object Store {
  /** The namespace that tables without one have in Spark. */
  val Default = "default"

  private val Heads =
    """SELECT table_id, namespace, name, format, location, version
      |FROM lakeward_head WHERE dropped_ms IS NULL""".stripMargin

  def shown(namespace: String): String = if (namespace.isEmpty) Default else namespace

  private def head(row: ResultSet): Head = Head(row.getLong(1), row.getString(2),
    row.getString(3), row.getString(4), row.getString(5), row.getLong(6))
}
