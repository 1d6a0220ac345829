//! What can go wrong with a request to a simulated store. Each request draws at most one fault.

use glidepath_env::unit_interval;
use glidepath_model::{Instant, Span};
use serde::{Deserialize, Serialize};

use crate::luck::Stream;

/// Probabilities per request, each from 0 to 1 and together at most 1, how long a client waits, and the faults of
/// clocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// The request never reaches the store; the client gives up after `timeout`.
    pub request_lost: f64,
    /// The request takes effect, but its answer is lost; the client gives up after `timeout`.
    pub answer_lost: f64,
    /// The request takes effect only `lateness` after it was sent, long after the client gave up: a zombie write.
    pub late: f64,
    /// The store turns the request away (503).
    pub refused: f64,
    /// The client dies after sending; the request takes effect all the same.
    pub crash: f64,
    /// The request takes effect in time, but its answer comes only `lateness` after it was sent, and the client waits:
    /// a slow network, or a client that was paused before it could look at the answer.
    pub slow: f64,
    /// The client is paused for `lateness` before it sends the request, and then continues without noticing.
    pub stalled: f64,
    /// The request is delivered twice, by a library or a proxy that repeats unanswered requests, and the client gets
    /// the second answer. For a guarded write that took effect this is "lost".
    pub repeated: f64,
    /// A proxy delivers the request twice, the first time perhaps late, and answers with any status: that of the second
    /// delivery, a refusal (409, 403 or 503), an error that leaves the outcome open (500), or late.
    pub proxied: f64,
    /// The client's machine is suspended for `lateness`, before the request leaves it or after. All processes on it
    /// stand still, and so does its monotonic clock; the clock that counts sleep and the time of day go on. On every
    /// second machine there is no clock that counts sleep.
    pub suspended: f64,
    /// When a client gives up waiting.
    pub timeout: Span,
    /// How late a late request is.
    pub lateness: Span,
    /// Of key-value stores: the share of the conditional writes with a lost answer (also: late, repeated, or of a dead
    /// process) that the store leaves half done. Plain reads show such a write or not, each by a draw. The next
    /// linearizable read or conditional write of the row decides it: one half take effect then, the others never. Above
    /// 0, plain reads of the store are not linearizable, and it has final writes.
    pub half_done: f64,
    /// Listings do not show objects that were created within this time; reads do.
    pub list_lag: Span,
    /// The time of day of each machine is off by up to this amount in either direction. Every ten minutes the amount
    /// changes: the time jumps, also backwards.
    pub clock_skew: Span,
    /// The clocks that measure spans are fast or slow by up to this share.
    pub clock_drift: f64,
    /// Processes measure with the monotonic clock alone, which stops during sleep. Protocols are not correct in such a
    /// world; it tests the checkers.
    pub clocks_stop: bool,
}

impl Default for Faults {
    /// No faults.
    fn default() -> Self {
        let (timeout, lateness) = (Span::from_secs(30), Span::from_secs(120));
        Self {
            request_lost: 0.0,
            answer_lost: 0.0,
            late: 0.0,
            refused: 0.0,
            crash: 0.0,
            slow: 0.0,
            stalled: 0.0,
            repeated: 0.0,
            proxied: 0.0,
            suspended: 0.0,
            timeout,
            lateness,
            half_done: 0.0,
            list_lag: Span::ZERO,
            clock_skew: Span::ZERO,
            clock_drift: 0.0,
            clocks_stop: false,
        }
    }
}

/// A request with a fault, for people who read a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mishap {
    /// When it was sent.
    pub at: Instant,
    /// By which process, counted from 1 in the order of arrival.
    pub process: u32,
    /// What was sent, and what happened to it.
    pub words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    RequestLost,
    AnswerLost,
    Late,
    Refused,
    Crash,
    Slow,
    Stalled,
    Repeated,
    Proxied,
    Suspended,
}

impl Fault {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::RequestLost => "request lost",
            Self::AnswerLost => "answer lost",
            Self::Late => "takes effect late",
            Self::Refused => "refused",
            Self::Crash => "sent, and its process dies",
            Self::Slow => "answered late",
            Self::Stalled => "leaves late: its process was paused",
            Self::Repeated => "delivered twice",
            Self::Proxied => "delivered twice, and answered by a proxy",
            Self::Suspended => "the machine is suspended",
        }
    }
}

impl Faults {
    /// Whether each request reaches the store at most once.
    pub(crate) fn delivers_once(&self) -> bool {
        self.repeated == 0.0 && self.proxied == 0.0
    }

    /// Whether there are clock faults.
    pub(crate) fn of_clocks(&self) -> bool {
        self.suspended > 0.0 || self.clock_skew > Span::ZERO || self.clock_drift > 0.0
    }

    pub(crate) fn any(&self) -> bool {
        self.table().iter().any(|(_, probability, _)| *probability > 0.0)
    }

    /// The probabilities of what can go wrong with a request, each with the name of its field.
    pub fn shares(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.table().into_iter().map(|(name, probability, _)| (name, probability))
    }

    fn table(&self) -> [(&'static str, f64, Fault); 10] {
        [
            ("request_lost", self.request_lost, Fault::RequestLost),
            ("answer_lost", self.answer_lost, Fault::AnswerLost),
            ("late", self.late, Fault::Late),
            ("refused", self.refused, Fault::Refused),
            ("crash", self.crash, Fault::Crash),
            ("slow", self.slow, Fault::Slow),
            ("stalled", self.stalled, Fault::Stalled),
            ("repeated", self.repeated, Fault::Repeated),
            ("proxied", self.proxied, Fault::Proxied),
            ("suspended", self.suspended, Fault::Suspended),
        ]
    }

    pub(crate) fn draw(&self, luck: &mut Stream) -> Option<Fault> {
        if !self.any() {
            return None;
        }
        let mut left = unit_interval(luck.draw());
        for (_, probability, fault) in self.table() {
            if left < probability {
                return Some(fault);
            }
            left -= probability;
        }
        None
    }
}
