//! Measures the requests to the files of tables.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use glidepath_table::{FileError, Files};

use super::metrics::{FileOperation, Metrics};

/// Files whose requests are measured.
#[derive(Clone)]
pub(crate) struct Timed<F> {
    files: F,
    metrics: Arc<Metrics>,
}

impl<F> Timed<F> {
    pub(crate) fn new(files: F, metrics: Arc<Metrics>) -> Self {
        Self { files, metrics }
    }

    fn note<T>(&self, operation: FileOperation, begun: Instant, answer: &Result<T, FileError>) {
        let failed = matches!(answer, Err(FileError::Failed { .. }));
        self.metrics.file(operation, begun.elapsed(), failed);
    }
}

impl<F: Files> Files for Timed<F> {
    async fn read_up_to(&self, location: &str, most: u64) -> Result<Bytes, FileError> {
        let begun = Instant::now();
        let answer = self.files.read_up_to(location, most).await;
        self.note(FileOperation::Read, begun, &answer);
        answer
    }

    async fn is_there(&self, location: &str) -> Option<bool> {
        self.files.is_there(location).await
    }

    async fn write(&self, location: &str, bytes: Bytes) -> Result<(), FileError> {
        let begun = Instant::now();
        let answer = self.files.write(location, bytes).await;
        self.note(FileOperation::Write, begun, &answer);
        answer
    }

    async fn delete(&self, location: &str) -> Result<(), FileError> {
        let begun = Instant::now();
        let answer = self.files.delete(location).await;
        self.note(FileOperation::Delete, begun, &answer);
        answer
    }

    async fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, FileError> {
        let begun = Instant::now();
        let answer = self.files.list(folder, after, limit).await;
        self.note(FileOperation::List, begun, &answer);
        answer
    }
}
