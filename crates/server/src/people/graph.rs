//! Where the lines of a graph of snapshots go: a lane for each line of descent, as few as possible.

use std::collections::BTreeMap;

/// A snapshot, for the graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) id: i64,
    pub(super) parent: Option<i64>,
}

/// Where a line runs within a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// From the upper edge to the lower one, in this lane.
    Through(usize),
    /// From the upper edge in this lane to the snapshot.
    Into(usize),
    /// From the snapshot to the lower edge, to its parent.
    Down,
    /// To a parent that the table no longer has.
    Lost,
}

/// A row: a snapshot with the lines beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) lane: usize,
    pub(super) lines: Vec<Line>,
}

/// A line that runs down to a snapshot.
#[derive(Clone, Copy)]
struct Lane {
    to: i64,
    /// Not if the lane is only kept free for a snapshot that comes later.
    begun: bool,
}

/// The rows of the first `most` snapshots. `nodes` has all snapshots of the table, the newest first. The lane at the
/// left is that of `head`, if that is among the shown ones.
pub(super) fn rows(nodes: &[Node], head: Option<i64>, most: usize) -> Vec<Row> {
    let rank: BTreeMap<i64, usize> = nodes.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
    let mut lanes: Vec<Option<Lane>> = Vec::new();
    if let Some(to) = head.filter(|head| rank.get(head).is_some_and(|rank| *rank < most)) {
        lanes.push(Some(Lane { to, begun: false }));
    }
    let mut rows = Vec::new();
    for (index, node) in nodes.iter().take(most).enumerate() {
        let mut lines = Vec::new();
        let own = lanes.iter().position(|lane| lane.is_some_and(|lane| lane.to == node.id));
        let lane = own.or_else(|| lanes.iter().position(Option::is_none)).unwrap_or_else(|| {
            lanes.push(None);
            lanes.len() - 1
        });
        for (at, place) in lanes.iter_mut().enumerate() {
            match *place {
                Some(Lane { to, begun }) if to == node.id => {
                    lines.extend(begun.then_some(Line::Into(at)));
                    *place = None;
                }
                Some(Lane { begun: true, .. }) => lines.push(Line::Through(at)),
                _ => {}
            }
        }
        if let Some(parent) = node.parent {
            // A parent that is not further down would never be reached.
            if rank.get(&parent).is_some_and(|rank| *rank > index) {
                lanes[lane] = Some(Lane { to: parent, begun: true });
                lines.push(Line::Down);
            } else {
                lines.push(Line::Lost);
            }
        }
        rows.push(Row { lane, lines });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::Line::{Down, Into, Lost, Through};
    use super::*;

    fn nodes(of: &[(i64, Option<i64>)]) -> Vec<Node> {
        of.iter().map(|(id, parent)| Node { id: *id, parent: *parent }).collect()
    }

    fn row(lane: usize, lines: &[Line]) -> Row {
        Row { lane, lines: lines.to_vec() }
    }

    #[test]
    fn a_branch_leaves_and_its_lane_ends_where_it_began() {
        // 5 is on a branch that left main (4) at 2.
        let nodes = nodes(&[(5, Some(3)), (4, Some(2)), (3, Some(2)), (2, Some(1)), (1, None)]);
        let expected = vec![
            row(1, &[Down]),
            row(0, &[Through(1), Down]),
            row(1, &[Through(0), Into(1), Down]),
            row(0, &[Into(0), Into(1), Down]),
            row(0, &[Into(0)]),
        ];
        assert_eq!(rows(&nodes, Some(4), 9), expected);
        assert_eq!(rows(&nodes, Some(4), 2), expected[..2]);
    }

    #[test]
    fn odd_parents_end_their_lines() {
        // 9 was expired; 3 is newer than its child; 1 is its own parent.
        let nodes = nodes(&[(3, Some(9)), (2, Some(3)), (1, Some(1)), (1, None)]);
        assert!(rows(&nodes, Some(7), 9).iter().all(|row| row.lane == 0));
        assert_eq!(rows(&nodes, None, 2), vec![row(0, &[Lost]), row(0, &[Lost])]);
    }
}
