//! A thread of a simulated program. What it computes is done one after the other, first come, first served.

use std::rc::Rc;

use glidepath_model::Span;
use glidepath_sim::SimEnv;
use tokio::sync::Mutex;

use crate::machine::Processors;

/// A thread, which needs a processor for all that it does.
#[derive(Clone)]
pub(super) struct Thread {
    turn: Rc<Mutex<()>>,
    processors: Processors,
}

impl Thread {
    pub(super) fn on(processors: &Processors) -> Self {
        Self { turn: Rc::default(), processors: processors.clone() }
    }

    /// Waits until work of this time is done.
    pub(super) async fn spend(&self, env: &SimEnv, time: Span) {
        if time > Span::ZERO {
            let _turn = self.turn.lock().await;
            self.processors.spend(env, time).await;
        }
    }
}
