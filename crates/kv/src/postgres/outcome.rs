//! What does a failure of PostgreSQL prove about a write?
//!
//! | what failed | the write |
//! |---|---|
//! | connecting, or preparing the statement | refused for certain: it was not sent |
//! | the statement, with the severity ERROR | refused for certain: the server has rolled it back |
//! | the connection, with FATAL or PANIC or without a word, or the time is over | unknown: the server may have committed first |

use glidepath_env::{Cause, ConditionError, Denial, KvReadError, Table, WriteError};
use tokio_postgres::error::{Severity, SqlState};

/// Why a statement has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// It was not sent.
    #[error("{0}")]
    Before(#[source] Reason),
    /// It was sent.
    #[error("{0}")]
    After(#[source] Reason),
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(super) enum Reason {
    #[error("no answer from {server} within {seconds} s while {step}")]
    Late { server: String, seconds: f64, step: &'static str },
    #[error("{server}, while {step}: {}", told(error))]
    Server { server: String, step: &'static str, error: tokio_postgres::Error },
}

/// What the server said, or why it said nothing.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said, said.code().code()),
        None => Cause::words(error.to_string()).to_string() + &source(error),
    }
}

fn source(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default()
}

impl Failure {
    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Before(Reason::Server { error, .. }) | Self::After(Reason::Server { error, .. }) => error.code(),
            _ => None,
        }
    }

    /// Whether nothing of the statement has taken effect or ever will.
    fn is_certain(&self) -> bool {
        match self {
            Self::Before(_) => true,
            Self::After(Reason::Late { .. }) => false,
            Self::After(Reason::Server { error, .. }) => error.as_db_error().is_some_and(|said| {
                said.parsed_severity() == Some(Severity::Error)
                    && *said.code() != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
            }),
        }
    }

    /// Whether the connection is of no more use.
    pub(super) fn ends_connection(&self) -> bool {
        !matches!(self, Self::After(Reason::Server { error, .. }) | Self::Before(Reason::Server { error, .. })
            if error.as_db_error().is_some_and(|said| said.parsed_severity() == Some(Severity::Error)))
    }

    /// Whether a write of several cells met one that exists.
    pub(super) fn is_conflict(&self) -> bool {
        self.is_certain() && self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    fn is_missing_table(&self) -> bool {
        matches!(self.code(), Some(code) if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INVALID_SCHEMA_NAME)
    }

    fn denial(self) -> Denial {
        let passing = self.code().is_some_and(is_passing);
        Denial { cause: Cause::words(self.to_string()), certain: true, passing }
    }

    pub(super) fn of_condition(self, table: &Table) -> ConditionError {
        if !self.is_certain() {
            return ConditionError::Unknown(Cause::words(self.to_string()));
        }
        if self.is_missing_table() {
            return ConditionError::Refused(Denial::words(format!("there is no table {table}: create it first")));
        }
        ConditionError::Refused(self.denial())
    }

    pub(super) fn of_write(self) -> WriteError {
        if self.is_certain() {
            return WriteError::Refused(self.denial());
        }
        WriteError::Unknown(Cause::words(self.to_string()))
    }

    pub(super) fn of_read(self, table: &Table) -> KvReadError {
        if self.is_missing_table() {
            return KvReadError::NoTable(table.clone());
        }
        KvReadError::Failed(Cause::words(self.to_string()))
    }
}

/// Whether the server may accept the same a little later: it lacks something (class 53), starts or stops, or had two
/// transactions in each other's way.
fn is_passing(code: &SqlState) -> bool {
    let passing = [
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    code.code().starts_with("53") || passing.contains(code)
}
