use scylla::errors::{ConnectionPoolError, WriteType};

use super::*;

fn answered(error: DbError, words: &str) -> ExecutionError {
    ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, words.to_owned()))
}

fn unavailable(consistency: Consistency) -> ExecutionError {
    answered(DbError::Unavailable { consistency, required: 2, alive: 1 }, "")
}

fn timed_out(write_type: WriteType) -> ExecutionError {
    answered(DbError::WriteTimeout { consistency: Consistency::Serial, received: 1, required: 2, write_type }, "")
}

#[test]
fn what_may_have_been_accepted_is_unknown() {
    let failed = DbError::WriteFailure {
        consistency: Consistency::Quorum,
        received: 1,
        required: 2,
        numfailures: 1,
        write_type: WriteType::Cas,
    };
    for error in [
        timed_out(WriteType::Cas),
        timed_out(WriteType::Simple),
        answered(failed, ""),
        answered(DbError::Other(CAS_WRITE_UNKNOWN), ""),
        answered(DbError::ServerError, ""),
        answered(DbError::Overloaded, "Too many in flight hints: 1024"),
        ExecutionError::RequestTimeout(std::time::Duration::from_secs(10)),
        ExecutionError::LastAttemptError(RequestAttemptError::NonfinishedPagingState),
    ] {
        assert_eq!(meaning(&error, Write::Conditional), Meaning::Unknown, "{error}");
        assert_eq!(meaning(&error, Write::Plain), Meaning::Unknown, "{error}");
    }
}

#[test]
fn what_the_coordinator_did_not_begin_is_refused() {
    for (error, wanted) in [
        (answered(DbError::Invalid, ""), Meaning::Refused),
        (answered(DbError::SyntaxError, ""), Meaning::Refused),
        (answered(DbError::Unauthorized, ""), Meaning::Refused),
        (answered(DbError::IsBootstrapping, ""), Meaning::Busy),
        (answered(DbError::Overloaded, "Request breached limit on bytes in flight."), Meaning::Busy),
        (answered(DbError::Overloaded, "Query timed out before it could start"), Meaning::Busy),
        (answered(DbError::Overloaded, "Server is shutting down"), Meaning::Busy),
        (ExecutionError::ConnectionPoolError(ConnectionPoolError::Initializing), Meaning::Busy),
        (ExecutionError::LastAttemptError(RequestAttemptError::UnableToAllocStreamId), Meaning::Busy),
        (ExecutionError::EmptyPlan, Meaning::Busy),
    ] {
        assert_eq!(meaning(&error, Write::Conditional), wanted, "{error}");
        assert_eq!(meaning(&error, Write::Plain), wanted, "{error}");
    }
}

/// Replicas are counted before a round proposes anything, and with the first variant of Paxos before a commit too.
#[test]
fn unavailable_refuses_at_the_level_of_the_rounds_only() {
    for serial in [Consistency::Serial, Consistency::LocalSerial] {
        assert_eq!(meaning(&unavailable(serial), Write::Conditional), Meaning::Busy);
    }
    assert_eq!(meaning(&unavailable(Consistency::Quorum), Write::Conditional), Meaning::Unknown);
    assert_eq!(meaning(&unavailable(Consistency::Quorum), Write::Plain), Meaning::Busy);
}

#[test]
fn a_statement_that_was_not_prepared_was_not_sent() {
    let prepared = |error| PrepareError::AllAttemptsFailed { first_attempt: error };
    let invalid = prepared(RequestAttemptError::DbError(DbError::Invalid, String::new()));
    assert_eq!(of_prepare(&invalid), Meaning::Refused);
    let broken = prepared(RequestAttemptError::NonfinishedPagingState);
    assert_eq!(meaning(&ExecutionError::PrepareError(broken), Write::Conditional), Meaning::Busy);
}

#[test]
fn messages_say_where_and_what_to_do() {
    let words = cause("putting into shop.carts", &unavailable(Consistency::Serial)).to_string();
    assert!(
        words.starts_with("putting into shop.carts: ") && words.contains("see that more of its replicas run"),
        "{words}"
    );
}
