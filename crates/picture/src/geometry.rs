//! Where is a rectangle, and what of a line lies within it? All in pixels, y downwards.

/// A place in the picture.
pub(crate) type Spot = (f64, f64);

/// An upright rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Frame {
    pub(crate) fn new(left: f64, top: f64, width: f64, height: f64) -> Self {
        Self { left, top, width, height }
    }

    pub(crate) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(crate) fn center(&self) -> Spot {
        (self.left + self.width / 2.0, self.top + self.height / 2.0)
    }

    pub(crate) fn grown(&self, by: f64) -> Self {
        Self::new(self.left - by, self.top - by, self.width + 2.0 * by, self.height + 2.0 * by)
    }

    pub(crate) fn holds(&self, spot: Spot) -> bool {
        (self.left..=self.right()).contains(&spot.0) && (self.top..=self.bottom()).contains(&spot.1)
    }

    pub(crate) fn encloses(&self, other: &Self) -> bool {
        self.holds((other.left, other.top)) && self.holds((other.right(), other.bottom()))
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right() && other.left < self.right() && self.top < other.bottom() && other.top < self.bottom()
    }

    /// The part of the line from `a` to `b` that lies within the frame (Liang and Barsky).
    pub(crate) fn clip(&self, a: Spot, b: Spot) -> Option<(Spot, Spot)> {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let sides =
            [(-dx, a.0 - self.left), (dx, self.right() - a.0), (-dy, a.1 - self.top), (dy, self.bottom() - a.1)];
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        for (slope, room) in sides {
            if slope == 0.0 {
                if room < 0.0 {
                    return None;
                }
            } else if slope < 0.0 {
                enter = enter.max(room / slope);
            } else {
                leave = leave.min(room / slope);
            }
        }
        let at = |t: f64| (a.0 + dx * t, a.1 + dy * t);
        (enter <= leave).then(|| (at(enter), at(leave)))
    }

    /// The runs of a connected line that lie within the frame.
    pub(crate) fn clip_path(&self, path: &[Spot]) -> Vec<Vec<Spot>> {
        let mut runs: Vec<Vec<Spot>> = Vec::new();
        for pair in path.windows(2) {
            let Some((from, to)) = self.clip(pair[0], pair[1]) else {
                continue;
            };
            match runs.last_mut() {
                Some(run) if run.last() == Some(&from) => run.push(to),
                _ => runs.push(vec![from, to]),
            }
        }
        runs
    }
}

/// Whether two lines touch, in one point or along a stretch.
pub(crate) fn meet(one: [Spot; 2], other: [Spot; 2]) -> bool {
    let side = |[from, to]: [Spot; 2], spot: Spot| {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        dx * (spot.1 - from.1) - dy * (spot.0 - from.0)
    };
    let parted = |line: [Spot; 2], ends: [Spot; 2]| side(line, ends[0]) * side(line, ends[1]) <= 0.0;
    let apart = |ends: fn(&Spot) -> f64| {
        let span = |line: &[Spot; 2]| (ends(&line[0]).min(ends(&line[1])), ends(&line[0]).max(ends(&line[1])));
        let ((a, b), (c, d)) = (span(&one), span(&other));
        b < c || d < a
    };
    !apart(|spot| spot.0) && !apart(|spot| spot.1) && parted(one, other) && parted(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_meet_where_they_cross_or_coincide() {
        let level = [(0.0, 5.0), (10.0, 5.0)];
        assert!(meet(level, [(5.0, 0.0), (5.0, 10.0)]));
        assert!(meet(level, [(5.0, 5.0), (20.0, 5.0)]));
        assert!(!meet(level, [(11.0, 5.0), (20.0, 5.0)]));
        assert!(!meet(level, [(5.0, 6.0), (5.0, 10.0)]));
    }

    #[test]
    fn a_line_is_cut_at_the_frame() {
        let frame = Frame::new(0.0, 0.0, 10.0, 10.0);
        assert_eq!(frame.clip((-5.0, 5.0), (15.0, 5.0)), Some(((0.0, 5.0), (10.0, 5.0))));
        assert_eq!(frame.clip((-5.0, 11.0), (15.0, 11.0)), None);
    }

    #[test]
    fn a_path_that_leaves_and_returns_has_two_runs() {
        let frame = Frame::new(0.0, 0.0, 10.0, 10.0);
        let path = [(1.0, 1.0), (2.0, 1.0), (2.0, 20.0), (8.0, 20.0), (8.0, 2.0)];
        assert_eq!(frame.clip_path(&path).len(), 2);
    }
}
