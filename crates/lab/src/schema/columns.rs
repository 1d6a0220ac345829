//! How do columns become a file? Collects them by name, and writes the file atomically.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, UInt64Builder};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::schema::SchemaError;

/// Columns of equal length.
#[derive(Default)]
pub(super) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    pub(super) fn text(&mut self, name: &str, values: impl Iterator<Item = String>) {
        self.add(name, false, Arc::new(StringArray::from_iter_values(values)));
    }

    pub(super) fn flag(&mut self, name: &str, values: impl Iterator<Item = bool>) {
        self.add(name, false, Arc::new(values.map(Some).collect::<BooleanArray>()));
    }

    pub(super) fn count(&mut self, name: &str, values: impl Iterator<Item = u64>) {
        self.add(name, false, Arc::new(UInt64Array::from_iter_values(values)));
    }

    pub(super) fn count_or_none(&mut self, name: &str, values: impl Iterator<Item = Option<u64>>) {
        self.add(name, true, Arc::new(values.collect::<UInt64Array>()));
    }

    pub(super) fn number(&mut self, name: &str, values: impl Iterator<Item = f64>) {
        self.add(name, false, Arc::new(Float64Array::from_iter_values(values)));
    }

    pub(super) fn number_or_none(&mut self, name: &str, values: impl Iterator<Item = Option<f64>>) {
        self.add(name, true, Arc::new(values.collect::<Float64Array>()));
    }

    pub(super) fn counts(&mut self, name: &str, rows: impl Iterator<Item = Vec<u64>>) {
        let mut lists = ListBuilder::new(UInt64Builder::new());
        for row in rows {
            lists.values().append_slice(&row);
            lists.append(true);
        }
        self.add(name, false, Arc::new(lists.finish()));
    }

    fn add(&mut self, name: &str, nullable: bool, array: ArrayRef) {
        self.fields.push(Field::new(name, array.data_type().clone(), nullable));
        self.arrays.push(array);
    }

    /// Writes a temporary file and renames it, so that the file is complete or absent.
    pub(super) fn write(self, path: &Path, metadata: Vec<KeyValue>) -> Result<(), SchemaError> {
        let partial = path.with_extension("partial");
        let io = |cause| SchemaError::Io { path: path.to_owned(), cause };
        let file = File::create(&partial).map_err(io)?;
        self.write_to(file, metadata).map_err(|cause| SchemaError::Parquet { path: path.to_owned(), cause })?;
        std::fs::rename(&partial, path).map_err(io)
    }

    fn write_to(self, file: File, metadata: Vec<KeyValue>) -> Result<(), ParquetError> {
        let properties = WriterProperties::builder()
            .set_created_by("glidepath".to_owned())
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(metadata))
            .build();
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), self.arrays)?;
        let mut writer = ArrowWriter::try_new(file, schema, Some(properties))?;
        writer.write(&batch)?;
        writer.close().map(drop)
    }
}
