//! How does a simulated store serve as a key-value store? Its requests are actions like those of an object store: they
//! travel the same way, and the same faults strike them.

use std::rc::Rc;

use bytes::Bytes;
use glidepath_env::{
    Cell, Columns, ConditionError, Denial, KvCapabilities, KvReadError, KvStore, Purpose, Rank, ReadLevel, Rows, Slice,
    Table, WriteError, check_columns, unit_interval,
};
use glidepath_model::{ByteSize, Instant};

use super::act::{Act, Action, Answer};
use super::failure::Failure;
use super::rows::{Conditional, Fate, View};
use super::state::StoreState;
use super::{Service, SimStore, When};
use crate::contention::Contention;
use crate::latency::Sampler;
use crate::luck::Stream;

/// The most columns of one put: assumed.
const MOST_COLUMNS: usize = 1000;

/// A request to tables of rows.
#[derive(Clone)]
pub(crate) enum RowAction {
    Create(Table),
    Get { table: Table, cells: Vec<Cell>, view: View },
    Scan { table: Table, row: Bytes, columns: Columns, limit: usize, view: View },
    Rows { table: Table, after: Option<Bytes>, limit: usize },
    Write(Conditional),
    Final { table: Table, cell: Cell, value: Bytes, rank: Rank },
}

pub(crate) enum RowAnswer {
    Cells(Result<Vec<Option<Bytes>>, KvReadError>),
    Slice(Result<Slice, KvReadError>),
    Rows(Result<Rows, KvReadError>),
    Condition(Result<(), ConditionError>),
    Write(Result<(), WriteError>),
}

/// The same in the hands of its sender. Boxed from the beginning, so that no request to objects is larger for it.
pub(crate) struct Ask(pub(crate) Box<RowAction>);

impl Ask {
    fn is_conditional(&self) -> bool {
        matches!(*self.0, RowAction::Write(_))
    }
}

impl Act for Ask {
    type Answer = RowAnswer;

    fn size(&self) -> ByteSize {
        let bytes = match &*self.0 {
            RowAction::Write(write) => write.columns.iter().map(|(column, value)| column.len() + value.len()).sum(),
            RowAction::Final { value, .. } => value.len(),
            _ => 0,
        };
        ByteSize::from_bytes(bytes as u64)
    }

    fn perform(self, state: &mut StoreState) -> RowAnswer {
        let tables = state.tables();
        match *self.0 {
            RowAction::Create(table) => {
                tables.create(table);
                RowAnswer::Write(Ok(()))
            }
            RowAction::Get { table, cells, view } => RowAnswer::Cells(tables.get(&table, &cells, view)),
            RowAction::Scan { table, row, columns, limit, view } => {
                RowAnswer::Slice(tables.scan((&table, &row), &columns, limit, view))
            }
            RowAction::Rows { table, after, limit } => RowAnswer::Rows(tables.rows(&table, after.as_ref(), limit)),
            RowAction::Write(write) => RowAnswer::Condition(tables.write(write)),
            RowAction::Final { table, cell, value, rank } => {
                RowAnswer::Write(tables.put_final(&table, cell, value, rank))
            }
        }
    }

    fn contention<'a>(&self, service: &'a Service) -> Option<&'a Contention> {
        service.conditional_put.contention.as_ref().filter(|_| self.is_conditional())
    }

    fn plain_put<'a>(&self, service: &'a Service) -> Option<&'a Sampler> {
        (service.puts_beside && self.is_conditional()).then_some(&service.put)
    }

    fn effect_share(&self, service: &Service) -> Option<f64> {
        service.model.profile.conditional_put.effect_share.filter(|_| self.is_conditional())
    }

    fn perform_at(self, state: &mut StoreState, now: Instant, when: &When) -> (RowAnswer, Instant) {
        let ticket = match when {
            When::At(at) => return (self.perform(state), *at),
            When::Contended(ticket) => ticket,
        };
        let service = Rc::clone(&state.service);
        match (self.contention(&service), *self.0) {
            (Some(contention), RowAction::Write(write)) => {
                let (outcome, at) = state.tables().contend(write, contention, ticket);
                (RowAnswer::Condition(outcome), at)
            }
            (_, action) => (Self(Box::new(action)).perform(state), ticket.sent.max(now)),
        }
    }

    fn into_action(self) -> Action {
        Action::Row(self.0)
    }

    fn answer(answer: Answer) -> RowAnswer {
        match answer {
            Answer::Row(answer) => *answer,
            _ => panic!("a request to rows was answered with the answer to a request to objects"),
        }
    }
}

impl RowAction {
    /// What is asked for, in words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Create(table) => format!("create table {table}"),
            Self::Get { table, cells, view } => {
                let first = cells.first().map_or_else(String::new, |cell| cell_words(&cell.row, &cell.column));
                format!("{} get of {} cells of {table}, first {first}", level_words(view.level), cells.len())
            }
            Self::Scan { table, row, view, .. } => {
                format!("{} scan of {table} {}", level_words(view.level), row.escape_ascii())
            }
            Self::Rows { table, .. } => format!("rows of {table}"),
            Self::Write(Conditional { table, row, columns, expected, .. }) => {
                let first = columns.first().map_or_else(String::new, |(column, _)| cell_words(row, column));
                let condition = if expected.is_none() { "if absent" } else { "if it is as expected" };
                format!("write {} cells of {table}, first {first}, {condition}", columns.len())
            }
            Self::Final { table, cell, rank, .. } => {
                format!("final put of {table} {}, {rank:?}", cell_words(&cell.row, &cell.column))
            }
        }
    }

    pub(super) fn fail(&self, failure: Failure) -> RowAnswer {
        match self {
            Self::Get { .. } => RowAnswer::Cells(Err(failure.into())),
            Self::Scan { .. } => RowAnswer::Slice(Err(failure.into())),
            Self::Rows { .. } => RowAnswer::Rows(Err(failure.into())),
            Self::Write(_) => RowAnswer::Condition(Err(failure.into())),
            Self::Create(_) | Self::Final { .. } => RowAnswer::Write(Err(failure.into())),
        }
    }
}

fn cell_words(row: &Bytes, column: &Bytes) -> String {
    format!("{}/{}", row.escape_ascii(), column.escape_ascii())
}

fn level_words(level: ReadLevel) -> &'static str {
    match level {
        ReadLevel::Linearizable => "linearizable",
        ReadLevel::Plain => "plain",
    }
}

/// The answer to a request, of the kind that belongs to it.
macro_rules! answer {
    ($kind:ident, $asked:expr) => {
        match $asked.await {
            RowAnswer::$kind(answer) => answer,
            _ => panic!("a request to rows was answered with the answer to another kind of request"),
        }
    };
}

impl SimStore {
    async fn ask(&self, action: RowAction, latency: &Sampler) -> RowAnswer {
        self.request(Ask(Box::new(action)), latency).await
    }

    fn view(&self, level: ReadLevel) -> View {
        let draws = level == ReadLevel::Plain && self.service.model.faults.half_done > 0.0;
        let seed = if draws { self.env.process.with_luck(Purpose::Fault, Stream::draw) } else { 0 };
        View { level, luck: Stream::keyed(seed, 0, 0) }
    }

    /// Of a request whose answer reaches nobody: the store may fail before the end, and leave a conditional write half
    /// done.
    pub(super) fn may_leave_half_done(&self, action: &mut Action) {
        let share = self.service.model.faults.half_done;
        let Action::Row(action) = action else { return };
        let RowAction::Write(write) = &mut **action else { return };
        if share <= 0.0 {
            return;
        }
        let (left, takes_effect) = self
            .env
            .process
            .with_luck(Purpose::Fault, |luck| (unit_interval(luck.draw()) < share, luck.draw() & 1 == 0));
        let fate = if takes_effect { Fate::TakesEffect } else { Fate::Vanishes };
        write.fate = left.then_some(fate);
    }

    async fn write(&self, write: Conditional) -> Result<(), ConditionError> {
        answer!(Condition, self.ask(RowAction::Write(write), &self.service.conditional_put.sampler))
    }
}

impl KvStore for SimStore {
    fn capabilities(&self) -> KvCapabilities {
        let faults = &self.service.model.faults;
        let decides_at_once = faults.half_done <= 0.0;
        KvCapabilities {
            delivers_once: faults.delivers_once(),
            plain_reads_are_linearizable: decides_at_once,
            final_writes: !decides_at_once,
            most_columns: MOST_COLUMNS,
            gathers: false,
        }
    }

    async fn create_table(&self, table: &Table) -> Result<(), WriteError> {
        answer!(Write, self.ask(RowAction::Create(table.clone()), &self.service.put))
    }

    async fn get(&self, table: &Table, cells: &[Cell], level: ReadLevel) -> Result<Vec<Option<Bytes>>, KvReadError> {
        let action = RowAction::Get { table: table.clone(), cells: cells.to_vec(), view: self.view(level) };
        answer!(Cells, self.ask(action, &self.service.get))
    }

    async fn scan(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &Columns,
        limit: usize,
        level: ReadLevel,
    ) -> Result<Slice, KvReadError> {
        let (table, row, columns) = (table.clone(), row.clone(), columns.clone());
        let action = RowAction::Scan { table, row, columns, limit, view: self.view(level) };
        answer!(Slice, self.ask(action, &self.service.get))
    }

    async fn rows(&self, table: &Table, after: Option<&Bytes>, limit: usize) -> Result<Rows, KvReadError> {
        let action = RowAction::Rows { table: table.clone(), after: after.cloned(), limit };
        answer!(Rows, self.ask(action, &self.service.get))
    }

    async fn put_unless_exists(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &[(Bytes, Bytes)],
    ) -> Result<(), ConditionError> {
        check_columns(columns, MOST_COLUMNS).map_err(ConditionError::Refused)?;
        let (table, row, columns) = (table.clone(), row.clone(), columns.to_vec());
        self.write(Conditional { table, row, columns, expected: None, fate: None }).await
    }

    async fn compare_and_set(
        &self,
        table: &Table,
        cell: &Cell,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Result<(), ConditionError> {
        let (table, row) = (table.clone(), cell.row.clone());
        let columns = vec![(cell.column.clone(), new.clone())];
        self.write(Conditional { table, row, columns, expected: expected.cloned(), fate: None }).await
    }

    async fn put_final(&self, table: &Table, cell: &Cell, value: &Bytes, rank: Rank) -> Result<(), WriteError> {
        if self.service.model.faults.half_done <= 0.0 {
            return Err(WriteError::Refused(Denial::words("this store has no final values, and needs none")));
        }
        let (table, cell, value) = (table.clone(), cell.clone(), value.clone());
        answer!(Write, self.ask(RowAction::Final { table, cell, value, rank }, &self.service.put))
    }
}
