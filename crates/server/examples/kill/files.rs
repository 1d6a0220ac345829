//! Manifests and manifest lists of appends, written as an engine writes them.

use std::sync::Arc;

use bytes::Bytes;
use glidepath_service::Warehouse;
use glidepath_stores::{Options, Store, base_location, open_plain};
use glidepath_table::Files as _;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, FormatVersion, ManifestFile, ManifestList, ManifestListWriter,
    ManifestWriterBuilder, PartitionSpec, Schema, Struct,
};

use crate::Anyhow;

pub(crate) struct Files(Warehouse<Store>);

/// The files of one snapshot.
pub(crate) struct Written {
    pub(crate) manifest: String,
    pub(crate) list: String,
}

/// What a snapshot is put on.
pub(crate) struct Base<'a> {
    pub(crate) location: &'a str,
    pub(crate) parent: Option<(i64, &'a str)>,
    pub(crate) sequence: i64,
}

impl Files {
    pub(crate) fn of(warehouse: &str) -> Anyhow<Self> {
        let store = open_plain(warehouse, &Options::default())?;
        Ok(Self(Warehouse::new(store, &base_location(warehouse)?)))
    }

    /// Writes a manifest with one data file, and a list of it and the manifests of the parent. `attempt` tells the
    /// files of one try from those of another.
    pub(crate) async fn write(&self, base: &Base<'_>, snapshot: i64, attempt: i64) -> Anyhow<Written> {
        let memory = FileIO::new_with_memory();
        let Base { location, parent, sequence } = base;
        let manifest = format!("{location}/metadata/{snapshot}-{attempt}-m0.avro");
        let schema = Arc::new(Schema::builder().with_fields([]).build()?);
        let spec = PartitionSpec::unpartition_spec();
        let mut writer =
            ManifestWriterBuilder::new(memory.new_output(&manifest)?, Some(snapshot), schema, spec).build_v2_data();
        let file = DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path(format!("{location}/data/{snapshot}-{attempt}.parquet"))
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::empty())
            .partition_spec_id(0)
            .record_count(1)
            .file_size_in_bytes(100)
            .build()?;
        // Without a sequence number of its own, as engines append: it gets that of the commit.
        writer.add_file(file, -1)?;
        let added = writer.write_manifest_file().await?;
        let list = format!("{location}/metadata/snap-{snapshot}-{attempt}.avro");
        let output = memory.new_output(&list)?.writer().await?;
        let mut lists = ManifestListWriter::v2(output, snapshot, parent.map(|(id, _)| id), *sequence);
        let mut all = vec![added];
        if let Some((_, earlier)) = parent {
            all.extend(self.manifests(earlier).await?);
        }
        lists.add_manifests(all.into_iter())?;
        lists.close().await?;
        for path in [&manifest, &list] {
            let bytes: Bytes = memory.new_input(path)?.read().await?;
            self.0.write(path, bytes).await?;
        }
        Ok(Written { manifest, list })
    }

    /// The manifests of a list.
    pub(crate) async fn manifests(&self, list: &str) -> Anyhow<Vec<ManifestFile>> {
        let bytes = self.0.read(list).await?;
        Ok(ManifestList::parse_with_version(&bytes, FormatVersion::V2)?.entries().to_vec())
    }

    pub(crate) async fn exists(&self, location: &str) -> bool {
        self.0.read(location).await.is_ok()
    }

    /// What Iceberg's clients do when they are told that a commit was not done.
    pub(crate) async fn delete(&self, written: &Written) {
        for location in [&written.list, &written.manifest] {
            let _ = self.0.delete(location).await;
        }
    }
}
