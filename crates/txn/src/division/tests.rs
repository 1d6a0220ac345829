use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// A planner that keeps columns together, as AtlasDB's.
fn planner(cross_column: usize, single_query: usize) -> Planner {
    Planner::new(Limits { cross_column, single_query }).unwrap().along(Axis::Column)
}

/// A cell of this column, in a row of this number.
fn cell(column: &str, row: usize) -> Cell {
    Cell { row: Bytes::copy_from_slice(&row.to_be_bytes()), column: Bytes::copy_from_slice(column.as_bytes()) }
}

/// So many cells of each column. Columns take turns, so the list is not grouped by column.
fn cells(counts: &[(&str, usize)]) -> Vec<Cell> {
    let most = counts.iter().map(|&(_, count)| count).max().unwrap_or(0);
    let turn = |row| counts.iter().filter(move |&&(_, count)| row < count).map(move |&(column, _)| cell(column, row));
    (0..most).flat_map(turn).collect()
}

/// A plan in words: the columns of each batch in order, each with the number of its cells.
fn words(plan: &[Batch]) -> Vec<String> {
    let batch = |batch: &Batch| {
        let columns = batch.cells().chunk_by(|one, other| one.column == other.column);
        let columns = columns.map(|run| format!("{}{}", String::from_utf8_lossy(&run[0].column), run.len()));
        columns.collect::<Vec<_>>().join("+")
    };
    plan.iter().map(batch).collect()
}

/// The example of AtlasDB's architecture decision record 16.
#[test]
fn selective_plans_the_documented_example_as_documented() {
    let cells = cells(&[("E", 30), ("D", 688), ("C", 70), ("B", 200), ("A", 80)]);
    let plan = planner(100, 300).plan(Division::Selective, cells);
    assert_eq!(words(&plan), ["B200", "D300", "D300", "D88", "A80+C20", "C50+E30"]);
}

#[test]
fn a_column_of_exactly_the_limit_shares_batches() {
    let plan = |count| words(&planner(100, 300).selective(cells(&[("A", 50), ("B", count)])));
    assert_eq!(plan(99), ["A50+B50", "B49"]);
    assert_eq!(plan(100), ["A50+B50", "B50"]);
    assert_eq!(plan(101), ["B101", "A50"]);
}

#[test]
fn each_division_keeps_the_order_of_the_list() {
    let list = [cell("b", 9), cell("a", 5), cell("b", 1), cell("a", 7), cell("b", 3)].to_vec();
    let rows = |division| {
        let plan = planner(2, 2).plan(division, list.clone());
        plan.iter().map(|batch| batch.cells().iter().map(|cell| cell.row[7]).collect()).collect::<Vec<Vec<u8>>>()
    };
    assert_eq!(rows(Division::PerColumn), [vec![5, 7], vec![9, 1], vec![3]]);
    assert_eq!(rows(Division::Full), [vec![9, 5], vec![1, 7], vec![3]]);
    assert_eq!(rows(Division::Selective), [vec![9, 1], vec![3], vec![5, 7]]);
}

#[test]
fn columns_are_in_unsigned_byte_order() {
    let columns: [&[u8]; 4] = [&[0xff], &[0x7f, 0], &[0x80], &[0x7f]];
    let list = columns.map(|column| Cell { row: Bytes::new(), column: Bytes::from_static(column) });
    let plan = planner(1, 1).per_column(list.to_vec());
    let order: Vec<&[u8]> = plan.iter().map(|batch| &batch.cells()[0].column[..]).collect();
    assert_eq!(order, [&[0x7f][..], &[0x7f, 0], &[0x80], &[0xff]]);
}

#[test]
fn a_batch_by_row_has_rows_in_byte_order() {
    let list = vec![cell("x", 2), cell("z", 1), cell("y", 2), cell("a", 1), cell("x", 2)];
    let plan = planner(10, 10).full(list);
    let rows = plan[0].by_row();
    let columns: Vec<String> = rows.iter().map(|row| String::from_utf8_lossy(&row.columns.concat()).into()).collect();
    assert_eq!((rows[0].row[7], rows[1].row[7]), (1, 2));
    assert_eq!(columns, ["za", "xyx"]);
}

#[test]
fn no_cells_need_no_batch() {
    for division in [Division::PerColumn, Division::Full, Division::Selective] {
        assert_eq!(Planner::default().plan(division, Vec::new()), []);
    }
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    let refused = |cross_column, single_query| Planner::new(Limits { cross_column, single_query }).unwrap_err();
    assert_eq!(refused(0, 10), LimitsError::NoCrossColumn);
    assert_eq!(refused(1, 0), LimitsError::NoSingleQuery);
    assert_eq!(refused(11, 10), LimitsError::CrossColumnBeyond { cross_column: 11, single_query: 10 });
    let words = "cross_column is 11, more than single_query, which is 10; lower the first or raise the second";
    assert_eq!(refused(11, 10).to_string(), words);
    let defaults = Limits { cross_column: 200, single_query: 50_000 };
    assert_eq!((Planner::default().limits(), planner(200, 50_000).limits()), (defaults, defaults));
    assert_eq!(planner(10, 10).limits().cross_column, 10);
}

#[test]
fn rows_are_kept_together_where_nothing_else_is_said() {
    let planner = Planner::new(Limits { cross_column: 3, single_query: 4 }).unwrap();
    let list = (0..10).map(|number| cell(["a", "b", "c", "d", "e"][number / 2], 1 + number % 2));
    let list: Vec<Cell> = list.chain([cell("x", 0), cell("x", 3), cell("y", 3)]).collect();
    let rows = |plan: Vec<Batch>| -> Vec<Vec<u8>> {
        plan.iter().map(|batch| batch.cells().iter().map(|cell| cell.row[7]).collect()).collect()
    };
    assert_eq!(rows(planner.selective(list)), [vec![1; 4], vec![1], vec![2; 4], vec![2], vec![0, 3, 3]]);
}

fn divisions() -> impl Strategy<Value = Division> {
    prop_oneof![Just(Division::PerColumn), Just(Division::Full), Just(Division::Selective)]
}

fn axes() -> impl Strategy<Value = Axis> {
    prop_oneof![Just(Axis::Row), Just(Axis::Column)]
}

fn limits() -> impl Strategy<Value = Limits> {
    (1..12_usize, 0..30_usize)
        .prop_map(|(cross_column, more)| Limits { cross_column, single_query: cross_column + more })
}

/// Lists in which some columns have many cells, and some cells are there twice; of some, the cells of each row are
/// together.
fn lists() -> impl Strategy<Value = Vec<Cell>> {
    let few_columns = (0..4_u8, 0..60_usize);
    let many_columns = (0..=u8::MAX, 0..60_usize);
    let cell = prop_oneof![few_columns, many_columns]
        .prop_map(|(column, row)| Cell { column: Bytes::copy_from_slice(&[column]), ..cell("", row) });
    (prop::collection::vec(cell, 0..300), any::<bool>()).prop_map(|(mut cells, together)| {
        if together {
            cells.sort_by_key(|cell| cell.row.iter().map(|byte| byte.reverse_bits()).collect::<Vec<_>>());
        }
        cells
    })
}

/// A plan that is found without groups is the one with them.
#[test]
fn selective_of_rows_that_are_together_is_full() {
    let list = |rows: &[u8]| -> Vec<Cell> {
        let cells = rows.iter().flat_map(|&row| (0..3).map(move |column| (row, column)));
        cells.map(|(row, column)| cell(&column.to_string(), row.into())).collect()
    };
    let planner = planner(5, 10).along(Axis::Row);
    assert_eq!(planner.selective(list(&[7, 3, 9])), planner.full(list(&[7, 3, 9])));
    assert_ne!(planner.selective(list(&[7, 3, 7])), planner.full(list(&[7, 3, 7])));
}

/// The rows or columns of these cells.
fn rows_or_columns(axis: Axis, cells: &[Cell]) -> BTreeSet<&Bytes> {
    cells.iter().map(|cell| axis.of(cell)).collect()
}

fn sorted(cells: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = cells.into_iter().collect();
    cells.sort();
    cells
}

proptest! {
    #[test]
    fn plans_hold_the_cells_of_the_list(
        division in divisions(), axis in axes(), limits in limits(), list in lists()
    ) {
        let plan = Planner::new(limits).unwrap().along(axis).plan(division, list.clone());
        prop_assert_eq!(sorted(plan.iter().flat_map(|batch| batch.cells().to_vec())), sorted(list));
    }

    #[test]
    fn batches_are_within_the_limits(division in divisions(), axis in axes(), limits in limits(), list in lists()) {
        for batch in Planner::new(limits).unwrap().along(axis).plan(division, list) {
            prop_assert!(!batch.cells().is_empty());
            prop_assert!(batch.cells().len() <= limits.single_query);
            let kept_together = match division {
                Division::PerColumn => Axis::Column,
                Division::Full | Division::Selective => axis,
            };
            if rows_or_columns(kept_together, batch.cells()).len() > 1 {
                prop_assert!(division != Division::PerColumn);
                prop_assert!(batch.cells().len() <= limits.cross_column);
            }
        }
    }

    #[test]
    fn cells_of_a_row_or_column_stay_in_the_order_of_the_list(
        division in divisions(), axis in axes(), limits in limits(), list in lists()
    ) {
        let plan = Planner::new(limits).unwrap().along(axis).plan(division, list.clone());
        let planned: Vec<Cell> = plan.iter().flat_map(|batch| batch.cells().to_vec()).collect();
        let axis = if division == Division::PerColumn { Axis::Column } else { axis };
        for one in rows_or_columns(axis, &list) {
            let of_one = |cells: &[Cell]| -> Vec<Cell> {
                cells.iter().filter(|cell| axis.of(cell) == one).cloned().collect()
            };
            prop_assert_eq!(of_one(&planned), of_one(&list));
        }
    }

    /// No more batches than the limits force, and large rows or columns alone.
    #[test]
    fn selective_has_as_few_batches_as_it_can(axis in axes(), limits in limits(), list in lists()) {
        let Limits { cross_column, single_query } = limits;
        let mut counts: BTreeMap<&Bytes, usize> = BTreeMap::new();
        for cell in &list {
            *counts.entry(axis.of(cell)).or_default() += 1;
        }
        let plan = Planner::new(limits).unwrap().along(axis).selective(list.clone());
        let large: usize =
            counts.values().filter(|&&count| count > cross_column).map(|count| count.div_ceil(single_query)).sum();
        let shared: usize = counts.values().filter(|&&count| count <= cross_column).sum();
        prop_assert_eq!(plan.len(), large + shared.div_ceil(cross_column));
        for batch in &plan {
            let found = rows_or_columns(axis, batch.cells());
            prop_assert!(found.len() == 1 || found.iter().all(|one| counts[*one] <= cross_column));
        }
        prop_assert!(plan[large..].iter().rev().skip(1).all(|batch| batch.cells().len() == cross_column));
    }

    /// A batch that mixes rows or columns holds all cells of each, except perhaps of its first and its last one.
    #[test]
    fn no_row_or_column_is_in_the_middle_of_two_batches(axis in axes(), limits in limits(), list in lists()) {
        for batch in Planner::new(limits).unwrap().along(axis).selective(list.clone()) {
            let mut found: Vec<&Bytes> = batch.cells().iter().map(|cell| axis.of(cell)).collect();
            found.dedup();
            for one in found.iter().skip(1).take(found.len().saturating_sub(2)) {
                let count = |cells: &[Cell]| cells.iter().filter(|cell| axis.of(cell) == *one).count();
                prop_assert_eq!(count(batch.cells()), count(&list));
            }
        }
    }

    #[test]
    fn a_batch_by_row_holds_its_cells(division in divisions(), limits in limits(), list in lists()) {
        for batch in Planner::new(limits).unwrap().plan(division, list) {
            let rows = batch.by_row();
            prop_assert!(rows.is_sorted_by(|one, other| one.row < other.row));
            prop_assert!(rows.iter().all(|row| !row.columns.is_empty()));
            let cells = rows.into_iter().flat_map(|RowCells { row, columns }| {
                columns.into_iter().map(move |column| Cell { row: row.clone(), column })
            });
            prop_assert_eq!(sorted(cells), sorted(batch.cells().to_vec()));
        }
    }
}
