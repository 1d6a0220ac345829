//! Turns of a commit over several tables: it is committed when it is its turn at each.

use glidepath_env::{Env, together};
use glidepath_protocols::group::Grouped;
use glidepath_protocols::group::line::{Next, Turns};
use glidepath_table::Files;
use iceberg::spec::TableMetadata;

use crate::bodies::Loaded;
use crate::error::ServiceError;
use crate::{AT_ONCE, Inner};

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// The tables as they are when it is this commit's turn at all of them; `None` for one that is not there.
    pub(super) async fn in_turns(&self, turns: &mut Turns) -> Result<Vec<Option<Loaded<TableMetadata>>>, ServiceError> {
        loop {
            let reads = together(AT_ONCE, turns.names().map(|name| self.current_to_commit(name))).await;
            let reads = reads.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
            let (tables, lines): (Vec<_>, Vec<_>) = reads.map(Option::unzip).unzip();
            let look = match turns.see(lines, |turn, line| self.see(turn, line)) {
                Next::Go => return Ok(tables),
                Next::JoinAndWait(look) => {
                    turns.join(&self.env, &self.committer).await;
                    look
                }
                Next::Wait(look) => look,
            };
            self.wait_in_line(look).await;
        }
    }
}
