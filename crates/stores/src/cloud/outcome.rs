//! The meaning of a request's ending for the object: one table per provider, as pure functions; `docs/stores/` prints
//! the tables, and the tests below check them.

use std::fmt;

/// The provider whose protocol is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Amazon S3 and compatibles.
    S3,
    /// Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Gcs,
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::S3 => "S3",
            Self::Azure => "Azure",
            Self::Gcs => "GCS",
        })
    }
}

/// How one exchange with a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The server answered.
    Answered(Answer),
    /// There was no connection, so no byte of the request left this process.
    NotConnected {
        /// Whether connecting timed out; otherwise the connection was refused at once.
        timed_out: bool,
        /// The host that was to be reached, and its port if it was named.
        server: String,
        /// The reason, for people.
        why: String,
    },
    /// The connection broke or timed out; the request may have been sent.
    Broken {
        /// The reason, for people.
        why: String,
    },
    /// The request was not sent: no credentials, an impossible key.
    NotTried {
        /// The reason, for people.
        why: String,
    },
}

/// The parts of a server's answer that matter for its meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: u16,
    /// The provider's own code for the error, if the answer has one. The answer to a HEAD has no body and, except on
    /// Azure, no code.
    pub(crate) code: Option<String>,
    /// The provider's own message.
    pub(crate) words: Option<String>,
}

/// The condition sent with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// None.
    None,
    /// There is no object of this key.
    Absent,
    /// The object is in a given state.
    Matches,
    /// The object has a given size.
    Offset,
}

/// The meaning of a write's ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteMeaning {
    /// It took effect.
    Done,
    /// The condition did not hold; nothing was written.
    Lost,
    /// It may have taken effect, or may still do so.
    Unknown,
    /// Refused before any effect.
    Refused {
        /// Whether the server asked to send it again later.
        later: bool,
    },
}

/// The meaning of a read's ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMeaning {
    /// The object was read.
    Done,
    /// The requested range begins at or beyond the end.
    BeyondEnd,
    /// There is no such object.
    NotFound,
    /// A 404 without the provider's code. A HEAD has none; of anything else, something on the way may have answered.
    Unconfirmed,
    /// The read failed; this says nothing about the object.
    Failed {
        /// Whether a repeat may help.
        later: bool,
    },
}

/// The meaning of a write's ending.
pub(crate) fn of_write(provider: Provider, condition: Condition, ending: &Ending) -> WriteMeaning {
    match ending {
        Ending::NotTried { .. } | Ending::NotConnected { .. } => WriteMeaning::Refused { later: false },
        Ending::Broken { .. } => WriteMeaning::Unknown,
        Ending::Answered(answer) => of_write_answer(provider, condition, answer),
    }
}

fn of_write_answer(provider: Provider, condition: Condition, answer: &Answer) -> WriteMeaning {
    let guarded = condition != Condition::None;
    let code = answer.code.as_deref().unwrap_or_default();
    match answer.status {
        200..=299 => WriteMeaning::Done,
        // Some compatible servers answer this to a failed If-None-Match.
        304 if condition == Condition::Absent => WriteMeaning::Lost,
        // Redirects are not followed: the server that answered did nothing.
        300..=399 => WriteMeaning::Refused { later: false },
        400 if condition == Condition::Offset && code == "InvalidWriteOffset" => WriteMeaning::Lost,
        404 if matches!(condition, Condition::Matches | Condition::Offset) && names_missing_object(code) => {
            WriteMeaning::Lost
        }
        // From something on the way, which may have passed the request on.
        408 => WriteMeaning::Unknown,
        // S3 answers 409 to a write that met another one in flight and was refused: neither done nor lost.
        409 if provider == Provider::Azure && guarded && code == "BlobAlreadyExists" => WriteMeaning::Lost,
        // A lease is not one of our conditions, nor is a limit on a blob's size.
        412 if guarded && !code.starts_with("Lease") && code != "MaxBlobSizeConditionNotMet" => WriteMeaning::Lost,
        429 => WriteMeaning::Refused { later: true },
        400..=499 | 501 => WriteMeaning::Refused { later: false },
        // Only the provider's own code promises that nothing happened; a gateway's 503 does not.
        503 if asks_to_slow_down(provider, code) => WriteMeaning::Refused { later: true },
        _ => WriteMeaning::Unknown,
    }
}

/// The meaning of a delete's ending; never [`WriteMeaning::Lost`].
pub(crate) fn of_delete(provider: Provider, ending: &Ending) -> WriteMeaning {
    match ending {
        Ending::Answered(answer) if says_missing(answer) => WriteMeaning::Done,
        Ending::Answered(Answer { status: 404, code: None, .. }) => WriteMeaning::Unknown,
        ending => of_write(provider, Condition::None, ending),
    }
}

/// The meaning of a read's ending.
pub(crate) fn of_read(ending: &Ending) -> ReadMeaning {
    match ending {
        Ending::NotTried { .. } => ReadMeaning::Failed { later: false },
        // A connection that timed out will probably time out again, so the caller gets the error at once.
        Ending::NotConnected { timed_out, .. } => ReadMeaning::Failed { later: !timed_out },
        Ending::Broken { .. } => ReadMeaning::Failed { later: true },
        Ending::Answered(answer) => match answer.status {
            200..=299 => ReadMeaning::Done,
            404 if says_missing(answer) => ReadMeaning::NotFound,
            404 if answer.code.is_none() => ReadMeaning::Unconfirmed,
            416 => ReadMeaning::BeyondEnd,
            408 | 429 | 500 | 502..=599 => ReadMeaning::Failed { later: true },
            _ => ReadMeaning::Failed { later: false },
        },
    }
}

/// Whether a request had no effect because there is no such object.
pub(crate) fn names_missing(ending: &Ending) -> bool {
    matches!(ending, Ending::Answered(answer) if says_missing(answer))
}

/// Whether a request on a directory bucket was refused because of its session, so that a new session may help. The
/// answer to a HEAD has no code.
pub(crate) fn may_be_the_session(ending: &Ending) -> bool {
    let Ending::Answered(answer) = ending else { return false };
    let token = |code: &str| matches!(code, "ExpiredToken" | "InvalidToken");
    matches!(answer.status, 401 | 403) || answer.status == 400 && answer.code.as_deref().is_none_or(token)
}

fn names_missing_object(code: &str) -> bool {
    matches!(code, "NoSuchKey" | "BlobNotFound" | "ResourceNotFound")
}

/// A 404 with another code is about something else: the bucket or, on versitygw, the sender. One without a code may be
/// of a proxy that does not know the store.
fn says_missing(answer: &Answer) -> bool {
    answer.status == 404 && answer.code.as_deref().is_some_and(names_missing_object)
}

fn asks_to_slow_down(provider: Provider, code: &str) -> bool {
    match provider {
        Provider::S3 => matches!(code, "SlowDown" | "ServiceUnavailable" | "Busy"),
        Provider::Azure => code == "ServerBusy",
        Provider::Gcs => code == "SlowDown",
    }
}

impl Ending {
    /// Whether bytes of the request can have left this process.
    pub(crate) fn was_sent(&self) -> bool {
        matches!(self, Self::Answered(_) | Self::Broken { .. })
    }

    /// Whether a write refused for this reason may be accepted a little later.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::NotTried { .. } => false,
            // A server that restarts refuses connections for a while; a server that does not answer is not waited for
            // again.
            Self::NotConnected { timed_out, .. } => !timed_out,
            Self::Broken { .. } => true,
            Self::Answered(answer) => {
                let in_flight = |code: &str| matches!(code, "ConditionalRequestConflict" | "OperationAborted");
                matches!(answer.status, 429 | 503) || answer.code.as_deref().is_some_and(in_flight)
            }
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(answer) => write!(f, "{answer}"),
            Self::NotConnected { server, why, .. } => write!(f, "no connection to {server}: {why}"),
            Self::Broken { why } => write!(f, "the connection broke or the time ran out: {why}"),
            // The address at which a cloud's own machines get credentials: the last place that is tried.
            Self::NotTried { why } if why.contains("169.254.169.254") => {
                write!(
                    f,
                    "no credentials in the environment ({} names the variables), in files, or from this machine's role \
                     ({why})",
                    page_of_credentials(why)
                )
            }
            Self::NotTried { why } => write!(f, "{why}"),
        }
    }
}

/// The page on a provider's credentials, by the path at which its machines get them.
fn page_of_credentials(why: &str) -> &'static str {
    let pages = [
        ("/latest/", "docs/stores/s3.md"),
        ("/metadata/identity", "docs/stores/azure.md"),
        ("/computeMetadata/", "docs/stores/gcs.md"),
    ];
    pages.iter().find(|(path, _)| why.contains(*path)).map_or("docs/stores", |(_, page)| *page)
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered {}", self.status)?;
        if let Some(code) = &self.code {
            write!(f, " {code}")?;
        }
        if let Some(words) = &self.words {
            write!(f, " ({words})")?;
        }
        f.write_str(self.advice())
    }
}

impl Answer {
    /// What a person can do about it.
    fn advice(&self) -> &'static str {
        match (self.status, self.code.as_deref().unwrap_or_default()) {
            (301 | 307 | 308, _) => "; is this the bucket's region? Set ?region=",
            (401 | 403, _) | (_, "XAdminUserNotFound") => "; check the credentials and their permissions",
            (_, "NoSuchBucket" | "ContainerNotFound") => "; create it first, or correct the URL",
            // A missing object has another message.
            (404, "") => "; is there such a bucket or container?",
            (_, "ConditionalRequestConflict") => "; another conditional write was in flight, send it again",
            (_, "InvalidBlobType") => "; an object that was put cannot be appended to, only one that an append created",
            (_, "BlockCountExceedsLimit" | "TooManyParts") => {
                "; the object has as many appends as the provider allows (Azure 50,000, S3 Express One Zone 10,000): \
                 go on \
                 in another object"
            }
            (501, _) => "; the store does not offer this",
            _ => "",
        }
    }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
