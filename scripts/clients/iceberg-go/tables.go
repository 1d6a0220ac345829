package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
)

type action = func(*table.Transaction) error

var (
	schema = iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "word", Type: iceberg.PrimitiveTypes.String})
	order = must(table.NewSortOrder(1, []table.SortField{{SourceIDs: []int{1}, Transform: iceberg.IdentityTransform{}, Direction: table.SortDESC,
		NullOrder: table.NullsLast}}))
	parts = iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "part", Transform: iceberg.BucketTransform{NumBuckets: 4}})
)

var tableSteps = []step{
	// The client stages a table if there are more updates, and makes it with them in one commit.
	{"create", func() {
		create("parted", iceberg.Properties{"owner": "checks"}, catalog.WithPartitionSpec(&parts), catalog.WithSortOrder(order))
		at, more := load("parted"), catalog.WithStagedUpdates(table.NewSetPropertiesUpdate(iceberg.Properties{"more": "1"}))
		spec := at.Spec()
		equal("columns", at.Schema().Fields(), schema.Fields())
		equal("the rest", []any{spec.String(), at.SortOrder().String(), at.Properties()["owner"]}, []any{parts.String(), order.String(), "checks"})
		add(add(at, 1, 2, 3), 4, 5)
		equal("rows of a bucket", found(load("parted").Scan(table.WithRowFilter(idIs(4)))), []int64{4})
		stored([]int64{1, 2, 3, 4, 5}, "parted")
		place := at.Location() + " elsewhere"
		add(create("staged", nil, more, catalog.WithLocation(place)), 1)
		equal("property and location", []string{load("staged").Properties()["more"], load("staged").Location()}, []string{"1", place})
		stored([]int64{1}, "staged")
		refused(catalog.ErrTableAlreadyExists, refusal(lake.CreateTable(ctx, in("parted"), schema)),
			refusal(lake.CreateTable(ctx, in("staged"), schema, more)))
	}},
	{"format versions", func() {
		for version := 1; version <= 3; version++ {
			name := fmt.Sprint("format", version)
			add(add(create(name, iceberg.Properties{"format-version": fmt.Sprint(version)}), 1, 2), 3)
			stored([]int64{1, 2, 3}, name)
			equal("version", load(name).Metadata().Version(), version)
			if version < 3 {
				add(change(load(name), func(t *table.Transaction) error { return t.UpgradeFormatVersion(version + 1) }), 4)
				stored([]int64{1, 2, 3, 4}, name)
			}
		}
		equal("next row id", load("format3").Metadata().NextRowID(), int64(3))
	}},
	// The client has no error of its own for a new name that is taken.
	{"rename, drop, purge, register", func() {
		newSpace("elsewhere")
		add(create("before", nil), 1)
		create("taken", nil)
		equal("taken", fmt.Sprintf("%.22s", refusal(lake.RenameTable(ctx, in("before"), in("taken")))), "AlreadyExistsException")
		must(lake.RenameTable(ctx, in("before"), in("elsewhere", "after")))
		must(lake.RenameTable(ctx, in("elsewhere", "after"), in("after")))
		file := load("after").MetadataLocation()
		done(lake.DropTable(ctx, in("after")), lake.PurgeTable(ctx, in("taken")))
		refused(catalog.ErrNoSuchTable, refusal(lake.LoadTable(ctx, in("before"))), refusal(lake.LoadTable(ctx, in("taken"))))
		add(must(lake.RegisterTable(ctx, in("registered"), file)), 2)
		stored([]int64{1, 2}, "registered")
		refused(catalog.ErrTableAlreadyExists, refusal(lake.RegisterTable(ctx, in("registered"), file)))
	}},
	{"schema, partitions, order, properties", func() {
		long := table.ColumnUpdate{FieldType: iceberg.Optional[iceberg.Type]{Val: iceberg.PrimitiveTypes.Int64, Valid: true}}
		at := change(add(create("evolved", nil), 1), addColumn, func(t *table.Transaction) error { return t.ReplaceSortOrder(order) })
		at = change(at, func(t *table.Transaction) error { return t.SetProperties(iceberg.Properties{"a": "1", "b": "2"}) }, func(t *table.Transaction) error {
			return t.UpdateSchema(true, true).UpdateColumn([]string{"more"}, long).MoveFirst([]string{"more"}).RenameColumn([]string{"id"}, "key").Commit()
		})
		at = change(at, func(t *table.Transaction) error {
			return t.UpdateSpec(true).AddIdentity("word").AddIdentity("more").Commit()
		})
		at = change(at, func(t *table.Transaction) error { return t.UpdateSpec(true).RemoveField("more").Commit() },
			func(t *table.Transaction) error { return t.RemoveProperties([]string{"a"}) })
		fields := at.Schema().Fields()
		equal("columns", []any{fields[0].Name, fields[0].Type.String(), fields[1].Name}, []any{"more", "long", "key"})
		equal("specs, order", []any{len(at.Metadata().PartitionSpecs()), at.SortOrder().String()}, []any{3, order.String()})
		equal("properties", []string{load("evolved").Properties()["a"], load("evolved").Properties()["b"]}, []string{"", "2"})
		add(change(at, func(t *table.Transaction) error {
			return t.UpdateSchema(true, true).DeleteColumn([]string{"more"}).RenameColumn([]string{"key"}, "id").Commit()
		}), 2)
		stored([]int64{1, 2}, "evolved")
	}},
	{"appends, time travel, rollback", func() {
		at, ids := create("appended", nil), []int64{}
		for id := range int64(12) {
			at, ids = add(at, id), append(ids, id)
		}
		stored(ids, "appended")
		snapshots := load("appended").Metadata().Snapshots()
		for number, snapshot := range snapshots {
			of := found(at.Scan(table.WithSnapshotID(snapshot.SnapshotID)))
			equal("rows and sequence number", []any{of, snapshot.SequenceNumber}, []any{ids[:number+1], int64(number + 1)})
		}
		light := must(connect(iceberg.Properties{"snapshot-loading-mode": "refs"}).LoadTable(ctx, in("appended")))
		equal("snapshots without refs", len(light.Metadata().Snapshots()), 1)
		add(light, 12)
		change(load("appended"), func(t *table.Transaction) error { return t.RollbackToSnapshot(snapshots[4].SnapshotID) })
		stored(ids[:5], "appended")
	}},
	// By copies, by position deletes (version 2) and by deletion vectors (version 3).
	{"overwrites and deletes", func() {
		for number, properties := range []iceberg.Properties{nil, {"write.delete.mode": "merge-on-read"},
			{"write.delete.mode": "merge-on-read", "format-version": "3"}} {
			name := fmt.Sprint("changed", number)
			at := must(add(create(name, properties), 1, 2, 3).OverwriteTable(ctx, rows(4), 1024, nil, table.WithOverwriteFilter(idIs(1))))
			stored([]int64{2, 3, 4}, name)
			at = add(must(at.OverwriteTable(ctx, rows(5, 6, 7), 1024, nil)), 8, 9)
			change(change(at, deleting(idIs(6))), deleting(iceberg.GreaterThan(iceberg.Reference("id"), int64(7))))
			stored([]int64{5, 7}, name)
		}
	}},
	{"rewritten manifests and expiry", func() {
		at := change(add(add(create("kept", nil), 1), 2), func(t *table.Transaction) error { return refusal(t.RewriteManifests(ctx)) })
		stored([]int64{1, 2}, "kept")
		time.Sleep(5 * time.Millisecond)
		add(change(at, func(t *table.Transaction) error {
			return t.ExpireSnapshots(table.WithRetainLast(1), table.WithOlderThan(1))
		}), 3)
		equal("snapshots", len(load("kept").Metadata().Snapshots()), 2)
		stored([]int64{1, 2, 3}, "kept")
	}},
}

func in(names ...string) table.Identifier { return append(table.Identifier{space}, names...) }
func load(names ...string) *table.Table   { return must(lake.LoadTable(ctx, in(names...))) }

func create(name string, properties iceberg.Properties, options ...catalog.CreateTableOpt) *table.Table {
	return must(lake.CreateTable(ctx, in(name), schema, append(options, catalog.WithProperties(properties))...))
}

func change(of *table.Table, actions ...action) *table.Table {
	transaction := of.NewTransaction()
	for _, act := range actions {
		done(act(transaction))
	}
	return must(transaction.Commit(ctx))
}

func appending(ids ...int64) action {
	return func(t *table.Transaction) error { return t.AppendTable(ctx, rows(ids...), 1024, nil) }
}

func deleting(where iceberg.BooleanExpression) action {
	return func(t *table.Transaction) error { return t.Delete(ctx, where, nil) }
}

func addColumn(t *table.Transaction) error {
	return t.UpdateSchema(true, true).AddColumn([]string{"more"}, iceberg.PrimitiveTypes.Int32, "", false, nil).Commit()
}

// rows is a table of Arrow with these ids, and words.
func rows(ids ...int64) arrow.Table {
	records := must(table.SchemaToArrowSchema(schema, nil, false, false))
	builder := array.NewRecordBuilder(memory.DefaultAllocator, records)
	for _, id := range ids {
		builder.Field(0).(*array.Int64Builder).Append(id)
		builder.Field(1).(*array.StringBuilder).Append("w")
	}
	return array.NewTableFromRecords(records, []arrow.RecordBatch{builder.NewRecordBatch()})
}

func idIs(id int64) iceberg.BooleanExpression        { return iceberg.EqualTo(iceberg.Reference("id"), id) }
func add(to *table.Table, ids ...int64) *table.Table { return change(to, appending(ids...)) }

// found is the sorted ids that a scan finds.
func found(scan *table.Scan) (ids []int64) {
	_, batches, err := scan.ToArrowRecords(ctx)
	done(err)
	for batch, err := range batches {
		column := must(batch, err).Column(batch.Schema().FieldIndices("id")[0])
		ids = append(ids, column.(*array.Int64).Int64Values()...)
	}
	slices.Sort(ids)
	return ids
}

// stored checks what somebody finds who loads the table now.
func stored(ids []int64, names ...string) {
	equal(fmt.Sprint("rows of ", names), found(load(names...).Scan()), ids)
}
