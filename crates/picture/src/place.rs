//! Where does an annotation go so that it covers neither another one nor the data?

use crate::geometry::{Frame, Spot, meet};

/// Penalty of a place that must not be taken.
const FORBIDDEN: f64 = 1000.0;
/// Penalty for covering a point.
const POINT: f64 = 12.0;
/// Penalty for covering a piece of line.
const LINE: f64 = 8.0;
/// Penalty for covering an error bar, the ends of which matter.
const SPREAD: f64 = 14.0;
/// Distances in pixels from a point to its annotation.
const DISTANCES: [f64; 7] = [7.0, 12.0, 19.0, 28.0, 40.0, 54.0, 70.0];
/// An annotation farther than this from its point gets a line to it.
const NEAR: f64 = 16.0;
/// Where that line ends, as the distance from the point.
const SHORT: f64 = 6.0;
/// Directions from a point to its annotation, the preferred ones first.
const DIRECTIONS: [(f64, f64); 8] =
    [(0.7, -0.7), (-0.7, -0.7), (0.0, -1.0), (0.7, 0.7), (-0.7, 0.7), (0.0, 1.0), (1.0, 0.0), (-1.0, 0.0)];

/// A line from an annotation to its point.
type Leader = [Spot; 2];

/// What is drawn already, and what annotations have been placed.
pub(crate) struct Placer {
    plot: Frame,
    taken: Vec<Frame>,
    /// Each with its penalty.
    lines: Vec<(Spot, Spot, f64)>,
    points: Vec<Spot>,
}

impl Placer {
    pub(crate) fn new(plot: Frame) -> Self {
        Self { plot, taken: Vec::new(), lines: Vec::new(), points: Vec::new() }
    }

    /// A connected line that annotations should not cover.
    pub(crate) fn avoid_path(&mut self, path: &[Spot]) {
        let pairs = path.windows(2).map(|pair| (pair[0], pair[1], LINE));
        self.lines.extend(pairs);
    }

    /// An error bar that annotations should not cover.
    pub(crate) fn avoid_spread(&mut self, [from, to]: [Spot; 2]) {
        self.lines.push((from, to, SPREAD));
    }

    /// A point that annotations should not cover.
    pub(crate) fn avoid_point(&mut self, point: Spot) {
        self.points.push(point);
    }

    fn penalty(&self, frame: &Frame) -> f64 {
        let mut penalty = 0.0;
        if !self.plot.encloses(frame) {
            penalty += FORBIDDEN;
        }
        let near = frame.grown(2.0);
        if self.taken.iter().any(|taken| taken.overlaps(&near)) {
            penalty += FORBIDDEN;
        }
        let around = frame.grown(3.0);
        let points = self.points.iter().filter(|point| around.holds(**point));
        let lines = self.lines.iter().filter(|(from, to, _)| frame.clip(*from, *to).is_some());
        penalty + points.count() as f64 * POINT + lines.map(|(_, _, own)| own).sum::<f64>()
    }

    /// Takes the best of the candidates (each with its own penalty), unless all are forbidden.
    fn take(&mut self, candidates: impl Iterator<Item = (Frame, f64)>) -> Option<Frame> {
        let mut best: Option<(Frame, f64)> = None;
        for (frame, own) in candidates {
            let limit = best.map_or(FORBIDDEN, |(_, penalty)| penalty);
            if own >= limit {
                continue;
            }
            let penalty = own + self.penalty(&frame);
            if penalty < limit {
                best = Some((frame, penalty));
            }
        }
        let (frame, _) = best?;
        self.taken.push(frame);
        Some(frame)
    }

    /// A place of the given size near `point`, with a line to it when it is not quite near. None
    /// when all places around it are taken.
    pub(crate) fn beside(&mut self, point: Spot, size: (f64, f64)) -> Option<(Frame, Option<Leader>)> {
        let (width, height) = size;
        let (taken, lines) = (self.taken.clone(), self.lines.clone());
        let covering = |[from, to]: Leader| taken.iter().any(|t| t.clip(from, to).is_some());
        let crossing = |leader: Leader| {
            let crossed = lines.iter().filter(|(from, to, _)| meet(leader, [*from, *to]));
            crossed.map(|(_, _, own)| own).sum::<f64>()
        };
        let candidates = DISTANCES.into_iter().flat_map(|distance| {
            let rated = DIRECTIONS.into_iter().enumerate();
            rated.map(move |(rank, (right, down))| {
                let x = point.0 + right * distance + width / 2.0 * (right.signum_or_zero() - 1.0);
                let y = point.1 + down * distance + height / 2.0 * (down.signum_or_zero() - 1.0);
                let frame = Frame::new(x, y, width, height);
                let own = distance * 0.35 + rank as f64 * 0.3;
                (frame, own)
            })
        });
        let candidates = candidates.map(|(frame, own)| match leader(&frame, point) {
            Some(leader) if covering(leader) => (frame, own + FORBIDDEN),
            Some(leader) => (frame, own + crossing(leader)),
            None => (frame, own),
        });
        let frame = self.take(candidates)?;
        let leader = leader(&frame, point);
        self.lines.extend(leader.map(|[from, to]| (from, to, LINE)));
        Some((frame, leader))
    }

    /// One of the given places, the first ones preferred.
    pub(crate) fn one_of(&mut self, frames: impl Iterator<Item = Frame>) -> Option<Frame> {
        let rated = frames.enumerate();
        self.take(rated.map(|(rank, frame)| (frame, rank as f64 * 0.2)))
    }
}

/// The sign of a direction, 0 for none.
trait SignumOrZero {
    fn signum_or_zero(self) -> f64;
}

impl SignumOrZero for f64 {
    fn signum_or_zero(self) -> f64 {
        if self == 0.0 { 0.0 } else { self.signum() }
    }
}

/// The line from the nearest spot of a frame almost to `point`, unless that is near.
fn leader(frame: &Frame, point: Spot) -> Option<Leader> {
    let x = point.0.clamp(frame.left, frame.right());
    let y = point.1.clamp(frame.top, frame.bottom());
    let (dx, dy) = (point.0 - x, point.1 - y);
    let distance = dx.hypot(dy);
    let share = 1.0 - SHORT / distance;
    (distance > NEAR).then_some([(x, y), (x + dx * share, y + dy * share)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_do_not_cover_each_other() {
        let mut placer = Placer::new(Frame::new(0.0, 0.0, 400.0, 300.0));
        let placed: Vec<Frame> = (0..6)
            .filter_map(|i| placer.beside((200.0 + f64::from(i), 150.0), (50.0, 14.0)))
            .map(|(frame, _)| frame)
            .collect();
        assert_eq!(placed.len(), 6);
        for (index, one) in placed.iter().enumerate() {
            assert!(placed[index + 1..].iter().all(|other| !one.overlaps(other)));
        }
    }

    #[test]
    fn an_annotation_without_room_has_no_place() {
        let mut placer = Placer::new(Frame::new(0.0, 0.0, 40.0, 30.0));
        assert_eq!(placer.beside((20.0, 15.0), (50.0, 14.0)), None);
    }

    #[test]
    fn an_annotation_avoids_the_line() {
        let mut placer = Placer::new(Frame::new(0.0, 0.0, 400.0, 300.0));
        let line = ((0.0, 300.0), (400.0, 0.0));
        placer.avoid_path(&[line.0, line.1]);
        let placed = placer.beside((200.0, 150.0), (60.0, 14.0));
        assert!(placed.is_some_and(|(f, _)| f.clip(line.0, line.1).is_none()));
    }
}
