//! What does an error of the driver prove about a write?
//!
//! | error | of a conditional write | why |
//! |---|---|---|
//! | the statement could not be prepared or encoded, no stream id was free | refused | it was not sent |
//! | no node has a connection | refused, passes | the driver goes to the next node only where it has sent nothing |
//! | syntax, invalid, unauthorized, credentials, configuration, protocol | refused | the coordinator looks at these before it begins |
//! | bootstrapping, or not prepared | refused, passes | the same |
//! | unavailable at SERIAL | refused, passes | counted before a round of Paxos proposes anything; a round that was accepted by anybody is never followed by another |
//! | unavailable at another level | unknown | Paxos v1 counts once more before it commits what was accepted |
//! | overloaded, in the words that the queue of requests uses | refused, passes | it was not taken from the queue |
//! | overloaded, in other words | unknown | too many hints: also said when what was accepted is committed |
//! | write timeout, write failure, `CAS_WRITE_UNKNOWN` | unknown | some replicas may have accepted it, and a later round completes that |
//! | read timeout, read failure | unknown | the read is the first part of a round, but which round is not said |
//! | connection lost, no answer in time, an unreadable answer, server error | unknown | it was sent |
//!
//! A refusal that the server answered concerns that delivery of the statement; something on the way may have delivered
//! it before, so the refusal is not certain (`docs/decisions/0011-clocks-and-refusals.md`). One without an answer is.
//!
//! A plain write is the same, except that being unavailable refuses it at every level: it has one round only. Read from
//! the source of Cassandra 5.0.9, for both variants of Paxos. It holds because the driver repeats nothing: see
//! [`super::open`].

use std::error::Error;

use glidepath_env::{Cause, ConditionError, Denial, WriteError};
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use scylla::statement::Consistency;

/// Which kind of write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// By Paxos.
    Conditional,
    /// Without a condition.
    Plain,
}

/// What an error proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It may have happened, or may yet.
    Unknown,
    /// This delivery has not happened and never will; the same write would fail again.
    Refused,
    /// This delivery has not happened and never will; the same write may be taken later.
    Busy,
}

/// A code that the driver does not know: a conditional write that may have happened, in version 5 of the protocol.
const CAS_WRITE_UNKNOWN: i32 = 0x1700;

/// How the queue of requests begins its refusals, in Cassandra 5.0. What says "overloaded" otherwise is the
/// count of hints, which is looked at after a proposal was accepted too.
const QUEUE_WORDS: [&str; 3] = ["Request ", "Query timed out before it could start", "Server is "];

/// What an error of a statement that was executed proves.
pub(super) fn meaning(error: &ExecutionError, write: Write) -> Meaning {
    match error {
        ExecutionError::BadQuery(_) => Meaning::Refused,
        ExecutionError::PrepareError(error) => of_prepare(error),
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => Meaning::Busy,
        ExecutionError::LastAttemptError(error) => of_attempt(error, write),
        _ => Meaning::Unknown,
    }
}

/// A statement that was not prepared was not executed.
pub(super) fn of_prepare(error: &PrepareError) -> Meaning {
    match error {
        PrepareError::ConnectionPoolError(_) => Meaning::Busy,
        PrepareError::AllAttemptsFailed { first_attempt, .. } => match of_attempt(first_attempt, Write::Plain) {
            Meaning::Unknown | Meaning::Busy => Meaning::Busy,
            Meaning::Refused => Meaning::Refused,
        },
        _ => Meaning::Refused,
    }
}

fn of_attempt(error: &RequestAttemptError, write: Write) -> Meaning {
    match error {
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::RepreparedIdChanged { .. }
        | RequestAttemptError::RepreparedIdMissingInBatch => Meaning::Refused,
        RequestAttemptError::UnableToAllocStreamId => Meaning::Busy,
        RequestAttemptError::DbError(error, words) => of_answer(error, words, write),
        _ => Meaning::Unknown,
    }
}

fn of_answer(error: &DbError, words: &str, write: Write) -> Meaning {
    match error {
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AuthenticationError
        | DbError::Unauthorized
        | DbError::ConfigError
        | DbError::ProtocolError => Meaning::Refused,
        DbError::IsBootstrapping | DbError::Unprepared { .. } => Meaning::Busy,
        DbError::Unavailable { consistency, .. } => {
            let before = matches!(consistency, Consistency::Serial | Consistency::LocalSerial);
            if before || write == Write::Plain { Meaning::Busy } else { Meaning::Unknown }
        }
        DbError::Overloaded if QUEUE_WORDS.iter().any(|begin| words.starts_with(begin)) => Meaning::Busy,
        _ => Meaning::Unknown,
    }
}

/// What whoever reads the message can do.
fn advice(error: &DbError) -> &'static str {
    match error {
        DbError::Unavailable { .. } => "; see that more of its replicas run",
        DbError::Overloaded => "; send fewer requests at once, or add nodes",
        DbError::IsBootstrapping => "; ask another node, or wait until this one has joined",
        DbError::Unauthorized => "; grant this user SELECT, MODIFY and CREATE on the keyspace",
        DbError::AuthenticationError => "; see the user and the password in the options",
        DbError::WriteTimeout { .. } | DbError::WriteFailure { .. } | DbError::Other(CAS_WRITE_UNKNOWN) => {
            "; write the same again to settle it, or read it linearizably"
        }
        DbError::ReadTimeout { .. } | DbError::ReadFailure { .. } => "; read again, and see that enough replicas run",
        DbError::Invalid | DbError::SyntaxError => {
            "; see that the table has the columns key, column1 and value, all blobs, and was made by create_table"
        }
        _ => "",
    }
}

/// The cause of a failure: what was tried where, what the driver says, and what can be done.
pub(super) fn cause(what: &str, error: &(dyn Error + 'static)) -> Cause {
    let mut words = format!("{what}: {error}");
    let mut source = error.source();
    while let Some(inner) = source {
        // The driver repeats the message of many a source in its own.
        let inner_words = inner.to_string();
        if !words.contains(&inner_words) {
            words = format!("{words}: {inner_words}");
        }
        source = inner.source();
    }
    if let Some(answer) = answer_in(error) {
        words.push_str(advice(answer));
    }
    Cause::words(words)
}

/// What the server answered, where it is the cause.
pub(super) fn answer_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a DbError> {
    let of_attempt = |attempt: &'a RequestAttemptError| match attempt {
        RequestAttemptError::DbError(answer, _) => Some(answer),
        _ => None,
    };
    let of_prepare = |prepare: &'a PrepareError| match prepare {
        PrepareError::AllAttemptsFailed { first_attempt, .. } => of_attempt(first_attempt),
        _ => None,
    };
    if let Some(prepare) = error.downcast_ref::<PrepareError>() {
        return of_prepare(prepare);
    }
    match error.downcast_ref::<ExecutionError>()? {
        ExecutionError::LastAttemptError(attempt) => of_attempt(attempt),
        ExecutionError::PrepareError(prepare) => of_prepare(prepare),
        _ => None,
    }
}

/// The error of a conditional write that was tried as `what` says.
pub(super) fn conditional(what: &str, error: &ExecutionError) -> ConditionError {
    let cause = cause(what, error);
    match denial(error, Write::Conditional) {
        None => ConditionError::Unknown(cause),
        Some(denied) => ConditionError::Refused(denied(cause)),
    }
}

/// The error of a plain write that was tried as `what` says.
pub(super) fn plain(what: &str, error: &ExecutionError) -> WriteError {
    let cause = cause(what, error);
    match denial(error, Write::Plain) {
        None => WriteError::Unknown(cause),
        Some(denied) => WriteError::Refused(denied(cause)),
    }
}

/// The denial for a cause; `None` if the write may have happened.
fn denial(error: &ExecutionError, write: Write) -> Option<impl FnOnce(Cause) -> Denial> {
    let passing = match meaning(error, write) {
        Meaning::Unknown => return None,
        Meaning::Refused => false,
        Meaning::Busy => true,
    };
    let certain = !matches!(error, ExecutionError::LastAttemptError(RequestAttemptError::DbError(..)));
    Some(move |cause| Denial { cause, certain, passing })
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
