package main

import (
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/view"
)

var viewSteps = []step{
	{"views", func() {
		must(lake.CreateView(ctx, in("seen"), query("SELECT 1 AS id"), schema, catalog.WithViewProperties(iceberg.Properties{"owner": "checks"})))
		taken := must(lake.CreateView(ctx, in("taken view"), query("SELECT 3"), schema))
		create("a table", nil)
		refused(catalog.ErrViewAlreadyExists, refusal(lake.CreateView(ctx, in("seen"), query("SELECT 2"), schema)),
			refusal(lake.CreateView(ctx, in("a table"), query("SELECT 2"), schema)), refusal(lake.RenameView(ctx, in("seen"), in("taken view"))))
		refused(catalog.ErrTableAlreadyExists, refusal(lake.CreateTable(ctx, in("seen"), schema)))
		loaded := must(lake.LoadView(ctx, in("seen")))
		next := loaded.CurrentVersion().Clone()
		next.Representations[0].Sql = "SELECT 2 AS id"
		changes := must(must(view.MetadataBuilderFromBase(loaded.Metadata())).AddVersion(next).SetCurrentVersionID(view.LastAddedID).
			SetProperties(iceberg.Properties{"more": "1"}).Build()).Changes
		must(lake.UpdateView(ctx, in("seen"), view.Requirements{view.AssertViewUUID(loaded.Metadata().ViewUUID())}, changes))
		refused(table.ErrCommitFailed, refusal(lake.UpdateView(ctx, in("seen"), view.Requirements{view.AssertViewUUID(taken.Metadata().ViewUUID())}, changes)))
		renamed := must(lake.RenameView(ctx, in("seen"), in("shown")))
		done(lake.DropView(ctx, in("shown")))
		equal("exists", must(lake.CheckViewExists(ctx, in("seen"))) || must(lake.CheckViewExists(ctx, in("shown"))), false)
		again := must(lake.RegisterView(ctx, in("again"), renamed.MetadataLocation()))
		equal("query, versions", []any{again.CurrentVersion().Representations[0].Sql, len(again.Versions())}, []any{"SELECT 2 AS id", 2})
		equal("properties", again.Properties(), iceberg.Properties{"owner": "checks", "more": "1"})
	}},
}

func query(sql string) *view.Version {
	return must(view.NewVersion(1, 0, []view.Representation{view.NewRepresentation(sql, "spark")}, in()))
}
