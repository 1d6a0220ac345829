package main

import (
	"fmt"
	"sync"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
)

var commitSteps = []step{
	// The client has no call that makes a branch or a tag of an old snapshot: the updates are committed as they are.
	{"branches and tags", func() {
		first := add(add(create("branched", nil), 1), 2).Metadata().Snapshots()[0].SnapshotID
		absent, tag := []table.Requirement{table.AssertRefSnapshotID("old", nil)}, table.NewSetSnapshotRefUpdate("old", first, table.TagRef, 0, 0, 0)
		both := []table.Update{tag, table.NewSetSnapshotRefUpdate("side", first, table.BranchRef, 0, 0, 2)}
		must(lake.UpdateTable(ctx, in("branched"), absent, both))
		refused(table.ErrCommitFailed, refusal(lake.UpdateTable(ctx, in("branched"), absent, both)))
		for branch, id := range map[string]int64{"side": 100, "fresh": 200} {
			transaction := load("branched").NewTransactionOnBranch(branch)
			done(appending(id)(transaction), refusal(transaction.Commit(ctx)))
		}
		for ref, expected := range map[string][]int64{"main": {1, 2}, "old": {1}, "side": {1, 100}, "fresh": {1, 2, 200}} {
			equal("rows of "+ref, found(must(load("branched").Scan().UseRef(ref))), expected)
		}
		must(lake.UpdateTable(ctx, in("branched"), []table.Requirement{}, []table.Update{table.NewRemoveSnapshotRefUpdate("side")}))
	}},
	{"several changes at once", func() {
		change(add(create("several", nil), 1), appending(2), deleting(idIs(1)), appending(3), addColumn,
			func(t *table.Transaction) error { return t.SetProperties(iceberg.Properties{"a": "1"}) })
		equal("property and columns", []any{load("several").Properties()["a"], load("several").Schema().NumFields()}, []any{"1", 3})
		stored([]int64{2, 3}, "several")
	}},
	{"two tables at once", func() {
		create("one", nil)
		create("other", nil)
		for number, expected := range []error{nil, table.ErrCommitFailed} {
			transaction := must(catalog.NewMultiTableTransaction(lake))
			for _, name := range []string{"one", "other"} {
				part := load(name).NewTransaction()
				done(appending(10)(part), transaction.AddTransaction(part))
			}
			if number > 0 {
				add(load("other"), 20)
			}
			refused(expected, transaction.Commit(ctx))
		}
		stored([]int64{10}, "one")
		stored([]int64{10, 20}, "other")
	}},
	{"stale commits", func() {
		old, replaced := add(create("stale", nil), 1), create("replaced", nil)
		done(lake.DropTable(ctx, in("replaced")))
		create("replaced", nil)
		add(old, 2)
		for _, act := range []action{appending(3), deleting(idIs(1)), addColumn} {
			late, gone := old.NewTransaction(), replaced.NewTransaction()
			done(act(late), act(gone), gone.SetProperties(iceberg.Properties{"a": "1"}))
			refused(table.ErrCommitFailed, refusal(late.Commit(ctx)), refusal(gone.Commit(ctx)))
		}
		stored([]int64{1, 2}, "stale")
	}},
	{"concurrent appends without retries", func() { concurrent("plain", "0", "false") }},
	{"concurrent appends with the client's retries", func() { concurrent("retried", "50", "false") }},
	{"concurrent appends with rebase", func() { concurrent("rebased", "0", "true") }},
}

func concurrent(name, retries, rebase string) {
	add(create(name, iceberg.Properties{"commit.retry.num-retries": retries, "commit.retry.min-wait-ms": "20", "glidepath.append-rebase": rebase}), 0)
	var wait sync.WaitGroup
	outcomes, acknowledged := make([]error, 25), []int64{}
	for writer := range 4 {
		wait.Go(func() {
			for id := 6*writer + 1; id <= 6*writer+6; id++ {
				at, err := lake.LoadTable(ctx, in(name))
				if err == nil {
					_, err = at.AppendTable(ctx, rows(int64(id)), 1024, nil)
				}
				outcomes[id] = err
			}
		})
	}
	wait.Wait()
	for id, err := range outcomes {
		if err == nil {
			acknowledged = append(acknowledged, int64(id))
		} else {
			refused(table.ErrCommitFailed, err)
		}
	}
	stored(acknowledged, name)
	equal("all were acknowledged", len(acknowledged) == 25 || retries == "0" && rebase == "false", true)
	note = fmt.Sprintf("(%d of 25 acknowledged)", len(acknowledged))
}
