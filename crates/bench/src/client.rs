//! What does one client do, live and simulated?

use glidepath_env::{Env, Purpose};
use glidepath_model::Instant;
use glidepath_protocols::group::{Committer, Group, RetryPolicy};
use glidepath_protocols::registry::{AnyCatalog, AnySharedState};
use glidepath_protocols::{Catalog, LoadError};

use crate::cell::{Cell, CellSamples};
use crate::counted::CountedWorld;
use crate::design::{Operation, Start};
use crate::rows::{self, LISTED};

/// A client: its environment, and its catalog. All clients of one process share place and group; a group that commits
/// together needs a leader.
pub(crate) struct Client<E: Env<Objects: Clone> + Clone> {
    pub(crate) env: CountedWorld<E>,
    pub(crate) prefix: String,
    pub(crate) shared_state: AnySharedState,
    pub(crate) group: Group<AnyCatalog<CountedWorld<E>>>,
    /// Its number among the clients of all processes.
    pub(crate) number: u32,
}

impl<E: Env<Objects: Clone> + Clone> Client<E> {
    /// Works until the time is over and the fewest operations are done, or `stop` is set.
    pub(crate) async fn work(&self, cell: &Cell, until: Instant, stopped: impl Fn() -> bool) -> CellSamples {
        let catalog = || self.shared_state.open(self.env.clone(), self.env.clone());
        let committer = match cell.grouped {
            true => Committer::grouped(self.env.clone(), catalog(), self.group.clone()),
            false => Committer::alone(self.env.clone(), catalog(), RetryPolicy::default()),
        };
        let (mut outcome, mut number) = (CellSamples::default(), 0_u64);
        while (number < cell.least || self.env.now() < until) && !stopped() {
            let began = self.env.now();
            self.env.compute().await;
            let result = match cell.operation {
                Operation::Commit => {
                    let answer = committer.commit(rows::create(self.number, number)).await;
                    answer.map(drop).map_err(|error| error.to_string())
                }
                read => self.read(cell, read, number, committer.catalog()).await,
            };
            match result {
                Ok(()) => outcome.latencies_ns.push(self.env.now().since(began).as_nanos()),
                Err(words) => outcome.count_error(words, 1),
            }
            number += 1;
        }
        outcome
    }

    /// Reads once, so that what the process shares is warm. If that fails, the reads that count fail too.
    pub(crate) async fn warm(&self, cell: &Cell) {
        let catalog = self.shared_state.open(self.env.clone(), self.env.clone());
        let _ = self.read(cell, cell.operation, 0, &catalog).await;
    }

    async fn read(
        &self,
        cell: &Cell,
        read: Operation,
        number: u64,
        warm: &AnyCatalog<CountedWorld<E>>,
    ) -> Result<(), String> {
        let cold;
        let catalog = match cell.start {
            Start::Warm => warm,
            Start::Cold => {
                cold = cell.design.protocol.open(self.env.clone(), self.env.clone(), &self.prefix);
                &cold
            }
        };
        let found = async {
            let at = catalog.load().await?;
            let row = self.env.draw(Purpose::Tables) % cell.rows.max(1);
            // The number after the last one has no entry.
            let (asked, there) = if number.is_multiple_of(2) { (row, 1) } else { (cell.rows, 0) };
            Ok::<_, LoadError>(match read {
                Operation::List => (rows::list(catalog, &at).await?, cell.rows.min(LISTED as u64)),
                Operation::Exists => (u64::from(rows::describe(catalog, &at, asked).await?), there),
                Operation::Describe | Operation::Commit => (u64::from(rows::describe(catalog, &at, row).await?), 1),
            })
        };
        match found.await {
            Ok((found, expected)) if found == expected => Ok(()),
            Ok((found, expected)) => Err(format!("found {found} entries; expected {expected}")),
            Err(error) => Err(error.to_string()),
        }
    }
}
