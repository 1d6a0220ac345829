//! Which results could a repeated measurement have had? The trials are resampled: blocks of the measured operations
//! make up other measurements, and each of these gives a profile.
//!
//! Operations close together are alike (a writer that is stuck for seconds, runs of failures). So whole blocks are
//! drawn and not single operations, each much longer than its longest operation (the block bootstrap: Künsch, *Annals
//! of Statistics* 17, 1989; with blocks that do not overlap: Carlstein, *Annals of Statistics* 14, 1986). Of n blocks
//! n - 1 are drawn, with replacement, because with few blocks the spread between the draws would otherwise be too
//! small, by 1 / n (Rao and Wu, *Journal of the American Statistical Association* 83, 1988).

use std::collections::BTreeMap;

use glidepath_model::{Instant, Span};
use glidepath_sim::Stream;

use crate::plan::Operation;
use crate::sample::{Sample, TrialSamples};

/// Blocks that a trial is cut into at most.
const MOST_BLOCKS: u64 = 10;

/// The least length of a block, as a multiple of the longest operation of its trials.
const LONGEST_FITS: u64 = 5;

/// Resampling has its own random stream.
const PURPOSE: u64 = 0x7265_7361_6d70_6c65;

/// The trials of a measurement, as blocks to draw from.
pub(crate) struct Blocks {
    /// Of each operation and number of writers.
    groups: BTreeMap<(Operation, u32), Vec<TrialSamples>>,
}

impl Blocks {
    pub(crate) fn of(trials: &[TrialSamples]) -> Self {
        let mut groups = BTreeMap::<_, Vec<&TrialSamples>>::new();
        for trial in trials.iter().filter(|trial| trial.window > Span::ZERO) {
            groups.entry((trial.trial.operation, trial.trial.writers)).or_default().push(trial);
        }
        let cut = |trials: Vec<&TrialSamples>| {
            let longest =
                trials.iter().flat_map(|trial| &trial.samples).map(|sample| sample.latency().as_nanos()).max();
            let shortest = trials.iter().map(|trial| trial.window.as_nanos()).min().unwrap_or_default();
            let fit = shortest / longest.unwrap_or(1).saturating_mul(LONGEST_FITS).max(1);
            let mut parts = fit.clamp(1, MOST_BLOCKS);
            // Of two blocks, each draw would have one only: too little spread.
            if parts * (trials.len() as u64) < 4 {
                parts = 4;
            }
            trials.into_iter().flat_map(|trial| parts_of(trial, parts)).collect()
        };
        Self { groups: groups.into_iter().map(|(pair, trials)| (pair, cut(trials))).collect() }
    }

    /// The trials of another measurement: one for each block that was drawn.
    pub(crate) fn draw(&self, seed: u64, number: u64) -> Vec<&TrialSamples> {
        let mut luck = Stream::keyed(seed, number, PURPOSE);
        let mut drawn = Vec::new();
        for blocks in self.groups.values() {
            let count = blocks.len() as u64;
            for _ in 0..count.saturating_sub(1).max(1) {
                // The high half of a product: almost uniform, with some dozens of blocks.
                let place = (u128::from(luck.draw()) * u128::from(count)) >> 64;
                drawn.push(&blocks[place as usize]);
            }
        }
        drawn
    }
}

/// A trial cut into parts of equal time, by the start of operations.
fn parts_of(trial: &TrialSamples, parts: u64) -> Vec<TrialSamples> {
    let first = trial.samples.iter().map(|sample| sample.began).min().unwrap_or(Instant::ZERO);
    let length = trial.window.as_nanos().max(1);
    let place = |sample: &Sample| (sample.began.since(first).as_nanos() * parts / length).min(parts - 1);
    let part = |part: u64| TrialSamples {
        trial: trial.trial,
        samples: trial.samples.iter().filter(|sample| place(sample) == part).copied().collect(),
        window: Span::from_nanos(length / parts),
    };
    (0..parts).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Measurement;
    use crate::plan::Trial;
    use crate::sample::End;

    /// Attempts of 10 ms; failures come in runs of twenty.
    fn trial(number: u32, luck: &mut Stream) -> TrialSamples {
        let at = |millis: u64| Instant::ZERO + Span::from_millis(millis);
        let mut samples = Vec::new();
        for run in 0..25 {
            let end = if luck.draw() >> 63 == 1 { End::Lost } else { End::Done };
            samples.extend((0..20).map(|n| {
                let began = 10 * (20 * run + n);
                Sample { writer: 0, began: at(began), ended: at(began + 10), end }
            }));
        }
        let trial = Trial { operation: Operation::Cas, writers: 2, number };
        TrialSamples { trial, samples, window: Span::from_secs(5) }
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let mut luck = Stream::keyed(1, 1, 1);
        let blocks = Blocks::of(&(1..=5).map(|number| trial(number, &mut luck)).collect::<Vec<_>>());
        assert_eq!(blocks.groups.values().map(Vec::len).collect::<Vec<_>>(), [50]);
        assert_eq!(blocks.draw(1, 3), blocks.draw(1, 3));
        assert_ne!(blocks.draw(1, 3), blocks.draw(1, 4));
        assert_ne!(blocks.draw(1, 3), blocks.draw(2, 3));
        assert_eq!(blocks.draw(1, 3).len(), 49);
    }

    /// Over many measurements, the spread between draws equals that between measurements: the spread of runs, not of
    /// single attempts.
    #[test]
    fn the_spread_between_draws_is_that_between_measurements() {
        let mut luck = Stream::keyed(1, 2, 3);
        let deviation = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
        };
        let rate = |trials: Vec<&TrialSamples>| Measurement::of_each(trials)[0].failure_rate();
        let (mut rates, mut spreads) = (Vec::new(), Vec::new());
        for seed in 0..60 {
            let measured: Vec<_> = (1..=5).map(|number| trial(number, &mut luck)).collect();
            rates.push(rate(measured.iter().collect()));
            let blocks = Blocks::of(&measured);
            spreads.push(deviation(&(0..16).map(|number| rate(blocks.draw(seed, number))).collect::<Vec<_>>()));
        }
        let (between, drawn) = (deviation(&rates), spreads.iter().sum::<f64>() / spreads.len() as f64);
        // As of 125 runs; of 2,500 single attempts it would be 0.01.
        assert!((0.035..0.055).contains(&between), "{between}");
        assert!((drawn / between - 1.0).abs() < 0.25, "{drawn} {between}");
    }

    #[test]
    fn operations_as_long_as_their_trials_leave_whole_trials() {
        let mut luck = Stream::keyed(4, 4, 4);
        let mut trials: Vec<_> = (1..=5).map(|number| trial(number, &mut luck)).collect();
        let last = trials[2].samples.last_mut().unwrap();
        last.ended = last.began + Span::from_secs(45);
        let blocks = Blocks::of(&trials);
        assert_eq!(blocks.groups.values().map(Vec::len).collect::<Vec<_>>(), [5]);
    }
}
