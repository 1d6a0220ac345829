//! Which load is to be tried next? Bisection on a logarithmic scale, independent of how loads are judged.
//!
//! A load either holds or fails. From a first guess, the search steps up while loads hold, or down while they fail,
//! until it has one of each; then it halves what lies between (geometrically) until the two are near enough. Loads that
//! hold are cheap to simulate and loads that fail are expensive, so the first guess should be low.

/// The parameters of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// The first load to be tried.
    pub(super) start: f64,
    /// The factor of the first step from it. Steps grow, to at most a factor of 2.
    pub(super) step: f64,
    /// The search ends when the lowest load that fails exceeds the highest that holds by at most this share.
    pub(super) tolerance: f64,
    /// No lower load is tried.
    pub(super) lowest: f64,
    /// No higher load is tried.
    pub(super) highest: f64,
}

/// A search, running or ended.
#[derive(Clone, Debug)]
pub(super) struct Search {
    range: Range,
    step: f64,
    holds: Option<f64>,
    fails: Option<f64>,
}

/// The largest step is a doubling: beyond the knee, loads are expensive.
const LARGEST_STEP: f64 = 2.0;

impl Search {
    /// A search that has tried nothing yet.
    pub(super) fn new(mut range: Range) -> Self {
        range.highest = range.highest.max(range.lowest);
        range.start = range.start.clamp(range.lowest, range.highest);
        Self { range, step: range.step, holds: None, fails: None }
    }

    /// The load to try next; `None` when the search has ended.
    pub(super) fn next(&self) -> Option<f64> {
        let Range { start, lowest, highest, tolerance, .. } = self.range;
        match (self.holds, self.fails) {
            (None, None) => Some(start),
            (Some(holds), None) => (holds < highest).then(|| (holds * self.step).min(highest)),
            (None, Some(fails)) => (fails > lowest).then(|| (fails / self.step).max(lowest)),
            (Some(holds), Some(fails)) => (fails > holds * (1.0 + tolerance)).then(|| (holds * fails).sqrt()),
        }
    }

    /// Records whether the load from [`next`](Self::next) held.
    pub(super) fn tell(&mut self, load: f64, held: bool) {
        if self.holds.or(self.fails).is_some() {
            self.step = (self.step * self.step).min(LARGEST_STEP);
        }
        *(if held { &mut self.holds } else { &mut self.fails }) = Some(load);
    }

    /// Continues from these ends, which may differ from those it found.
    pub(super) fn resume(&mut self, holds: Option<f64>, fails: Option<f64>) {
        (self.holds, self.fails, self.step) = (holds, fails, self.range.step);
    }

    /// The highest load that held; `None` if none did.
    pub(super) fn holds(&self) -> Option<f64> {
        self.holds
    }

    /// The lowest load that failed; `None` if none did.
    pub(super) fn fails(&self) -> Option<f64> {
        self.fails
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The search after it has ended, and how many loads it tried.
    fn run(range: Range, mut held: impl FnMut(f64) -> bool) -> (Search, usize) {
        let mut search = Search::new(range);
        let mut tried = 0;
        while let Some(load) = search.next() {
            tried += 1;
            assert!(tried < 200, "{search:?}");
            search.tell(load, held(load));
        }
        (search, tried)
    }

    const RANGE: Range = Range { start: 1.0, step: 1.5, tolerance: 0.02, lowest: 1e-3, highest: 1e3 };

    proptest! {
        #[test]
        fn the_true_knee_lies_within_the_tolerance(
            knee in 2e-3..9e2_f64, start in 1e-4..1e4_f64, step in 1.01..2.0_f64, tolerance in 0.005..0.3_f64
        ) {
            let (search, tried) = run(Range { start, step, tolerance, ..RANGE }, |load| load <= knee);
            let (holds, fails) = (search.holds().unwrap(), search.fails().unwrap());
            prop_assert!(holds <= knee && knee < fails, "{search:?}");
            prop_assert!(fails <= holds * (1.0 + tolerance) * (1.0 + 1e-9), "{search:?}");
            prop_assert!(tried < 45, "{tried}");
        }

        /// For any answers the search ends, and its ends are loads with these answers.
        #[test]
        fn it_ends_also_among_contradictions(answers in prop::collection::vec(any::<bool>(), 200)) {
            let mut answers = answers.into_iter();
            let mut told = Vec::new();
            let (search, _) = run(RANGE, |load| {
                let held = answers.next().unwrap();
                told.push((load, held));
                held
            });
            for (end, held) in [(search.holds(), true), (search.fails(), false)] {
                prop_assert!(end.is_none_or(|load| told.contains(&(load, held))));
            }
        }
    }

    #[test]
    fn where_all_hold_or_none_does_the_limit_is_the_last_that_is_tried() {
        let (search, _) = run(RANGE, |_| true);
        assert_eq!((search.holds(), search.fails()), (Some(1e3), None));
        let (search, _) = run(RANGE, |_| false);
        assert_eq!((search.holds(), search.fails()), (None, Some(1e-3)));
    }

    /// Noise near the knee: within 1 % of it, chance decides whether a load holds.
    #[test]
    fn noise_moves_the_answer_by_no_more_than_itself() {
        let mut coin = 1_u64;
        for _ in 0..500 {
            let (search, _) = run(Range { step: 1.05, start: 9.8, ..RANGE }, |load| {
                coin = coin.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                load < 9.9 || (load < 10.1 && coin >> 63 == 1)
            });
            let found = search.holds().unwrap();
            assert!((9.9 / 1.021..=10.1).contains(&found), "{found}");
        }
    }
}
