//! The Parquet file of all samples, for other fits.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::sample::{End, Sample, TrialSamples};

/// Writes a row for each sample that counts, atomically: to a temporary file that is then renamed.
///
/// # Errors
/// The file cannot be written.
pub fn write_samples(path: &Path, trials: &[TrialSamples]) -> io::Result<()> {
    let beside = path.with_extension("parquet.part");
    let written = write(&beside, trials).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // A partial file is useless, and the error says why it is partial.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn write(path: &Path, trials: &[TrialSamples]) -> io::Result<()> {
    // A list, since Arrow's columns of text want to know the number of rows beforehand.
    let all: Vec<(&TrialSamples, &Sample)> =
        trials.iter().flat_map(|trial| trial.samples.iter().map(move |sample| (trial, sample))).collect();
    let rows = || all.iter().copied();
    let number = |of: fn(&(&TrialSamples, &Sample)) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(rows().map(|row| of(&row))))
    };
    let small = |of: fn(&(&TrialSamples, &Sample)) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(rows().map(|row| of(&row))))
    };
    let operation = StringArray::from_iter_values(rows().map(|(trial, _)| trial.trial.operation.name()));
    let end = StringArray::from_iter_values(rows().map(|(_, sample)| match sample.end {
        End::Done => "done",
        End::Lost => "lost",
        End::Refused => "refused",
        End::Unknown => "unknown",
    }));
    let columns: [(&str, ArrayRef); 7] = [
        ("operation", Arc::new(operation)),
        ("writers", small(|(trial, _)| trial.trial.writers)),
        ("trial", small(|(trial, _)| trial.trial.number)),
        ("writer", small(|(_, sample)| sample.writer)),
        ("began_ns", number(|(_, sample)| sample.began.as_nanos())),
        ("latency_ns", number(|(_, sample)| sample.latency().as_nanos())),
        ("end", Arc::new(end)),
    ];
    let wrong = |error: ParquetError| io::Error::other(error.to_string());
    let batch = RecordBatch::try_from_iter(columns).map_err(|error| io::Error::other(error.to_string()))?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties)).map_err(wrong)?;
    writer.write(&batch).map_err(wrong)?;
    writer.close().map_err(wrong)?;
    Ok(())
}
