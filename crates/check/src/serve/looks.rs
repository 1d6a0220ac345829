//! What do readers see while others commit?

use glidepath_service::Identifier;
use glidepath_table::{FileError, Files};

use super::client::Client;

impl Client {
    /// Loads a table and looks for its files, as a reader does.
    pub(super) async fn look(&self, table: &Identifier) {
        let acknowledged = self.book.borrow().acknowledged();
        let Some(loaded) = self.load(table).await else { return };
        let metadata = &loaded.metadata;
        let uuid = metadata.uuid();
        let has = |snapshot| metadata.snapshot_by_id(snapshot).is_some();
        self.book.borrow_mut().loaded(uuid, acknowledged, has);
        let Some(snapshot) = metadata.current_snapshot() else { return };
        if let Err(FileError::NotFound(file)) = self.files.read(snapshot.manifest_list()).await {
            self.book.borrow_mut().miss(metadata.location(), file);
        }
    }

    /// Loads one table after another: what is seen of a commit to both in the first is there in the second, too.
    pub(super) async fn look_at_two(&self) {
        let (one, other) = (self.any_table(), self.any_table());
        let Some(first) = self.load(&one).await else { return };
        let Some(second) = self.load(&other).await else { return };
        let seen: Vec<i64> = first.metadata.snapshots().map(|snapshot| snapshot.snapshot_id()).collect();
        let uuids = (first.metadata.uuid(), second.metadata.uuid());
        let has = |snapshot| second.metadata.snapshot_by_id(snapshot).is_some();
        self.book.borrow_mut().saw_two(&seen, uuids, has);
    }
}
