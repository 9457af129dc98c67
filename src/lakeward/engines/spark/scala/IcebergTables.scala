package lakeward.spark

import java.util.{Collections, HashMap, List => JavaList, Map => JavaMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.{Configurable, Configuration}
import org.apache.iceberg.{BaseMetastoreCatalog, BaseMetastoreTableOperations, CatalogProperties}
import org.apache.iceberg.{CatalogUtil, TableMetadata, TableOperations}
import org.apache.iceberg.catalog.{Namespace, TableIdentifier}
import org.apache.iceberg.io.FileIO

/** The lake's Iceberg tables as a catalog of Iceberg's own, which commits nothing. */
class IcebergTables extends BaseMetastoreCatalog with Configurable {
  private var catalog = ""
  private var options: JavaMap[String, String] = Collections.emptyMap()
  private var configuration: Configuration = _
  private var store: Store = _
  private var files: FileIO = _

  override def initialize(name: String, properties: JavaMap[String, String]): Unit = {
    catalog = name
    options = new HashMap(properties)
    store = new Store(properties)
    val kind = properties.getOrDefault(
      CatalogProperties.FILE_IO_IMPL, "org.apache.iceberg.hadoop.HadoopFileIO")
    files = CatalogUtil.loadFileIO(kind, properties, configuration)
  }

  override def name(): String = catalog
  override def properties(): JavaMap[String, String] = options
  override def setConf(conf: Configuration): Unit = configuration = conf
  override def getConf: Configuration = configuration

  override def newTableOps(table: TableIdentifier): TableOperations =
    new BaseMetastoreTableOperations {
      override def tableName(): String = BaseMetastoreCatalog.fullTableName(catalog, table)
      override def io(): FileIO = files

      override def doRefresh(): Unit = {
        val found = table.namespace.levels match {
          case Array(namespace) => store.pointer(namespace, table.name)
          case _ => None
        }
        // Without a document it is no table, or one of Iceberg's tables about a table.
        found.fold(disableRefresh())(refreshFromMetadataLocation)
      }

      override def doCommit(base: TableMetadata, metadata: TableMetadata): Unit =
        Refused(table.toString)
    }

  override def listTables(namespace: Namespace): JavaList[TableIdentifier] = {
    val found = store.heads(Some(namespace.toString)).filter(_.format == "iceberg")
    found.map(h => TableIdentifier.of(namespace, h.name)).asJava
  }

  override def defaultWarehouseLocation(table: TableIdentifier): String =
    Refused.creation(s"Table $table")
  override def dropTable(table: TableIdentifier, purge: Boolean): Boolean =
    Refused(table.toString)
  override def renameTable(from: TableIdentifier, to: TableIdentifier): Unit =
    Refused(from.toString)
}
