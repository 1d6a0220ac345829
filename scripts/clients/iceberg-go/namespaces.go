package main

import (
	"fmt"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
)

var namespaceSteps = []step{
	{"config and namespaces", func() {
		lake = connect(nil)
		newSpace()
		refused(catalog.ErrNamespaceAlreadyExists, lake.CreateNamespace(ctx, in(), iceberg.Properties{}))
		changed := must(lake.UpdateNamespaceProperties(ctx, in(), []string{"owner", "none"}, iceberg.Properties{"more": "1"}))
		equal("changes", changed, catalog.PropertiesUpdateSummary{Removed: []string{"owner"}, Updated: []string{"more"}, Missing: []string{"none"}})
		properties := must(lake.LoadNamespaceProperties(ctx, in()))
		equal("properties", []string{properties["owner"], properties["more"]}, []string{"", "1"})
	}},
	// The client sends null for what its caller leaves out.
	{"nulls", func() {
		create("bare", nil)
		set, update := iceberg.Properties{"a": "1"}, []table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{"a": "1"})}
		done(lake.CreateNamespace(ctx, in("nulls"), nil), refusal(lake.UpdateNamespaceProperties(ctx, in(), nil, set)),
			refusal(lake.UpdateNamespaceProperties(ctx, in(), []string{"a"}, nil)), refusal(lake.UpdateTable(ctx, in("bare"), nil, update)))
	}},
	// The client asks for pages of 20 by itself.
	{"nested namespaces and pages", func() {
		newSpace("parent")
		for number := range 8 {
			newSpace("parent", fmt.Sprint("n", number))
			must(lake.CreateTable(ctx, in("parent", fmt.Sprint("t", number)), schema))
		}
		small, count := lake.SetPageSize(ctx, 3), 0
		equal("namespaces", len(must(lake.ListNamespaces(small, in("parent")))), 8)
		for _, err := range lake.ListTables(small, in("parent")) {
			done(err)
			count++
		}
		equal("tables", count, 8)
		must(lake.CreateTable(ctx, in("parent", "n0", "deep"), schema))
		refused(catalog.ErrNamespaceNotEmpty, lake.DropNamespace(ctx, in("parent")), lake.DropNamespace(ctx, in("parent", "n0")))
		done(lake.DropTable(ctx, in("parent", "n0", "deep")), lake.DropNamespace(ctx, in("parent", "n0")))
	}},
	{"absent names", func() {
		none, head, set, update := in("none"), lake.CheckTableExists, iceberg.Properties{"a": "1"}, []table.Update{table.NewRemovePropertiesUpdate([]string{"a"})}
		equal("exists", must(lake.CheckNamespaceExists(ctx, none)) || must(head(ctx, none)) || must(head(ctx, in("none", "none"))), false)
		refused(catalog.ErrNoSuchNamespace, refusal(lake.LoadNamespaceProperties(ctx, none)), refusal(lake.ListNamespaces(ctx, none)),
			lake.DropNamespace(ctx, none), refusal(lake.UpdateNamespaceProperties(ctx, none, []string{}, set)),
			lake.CreateNamespace(ctx, in("none", "child"), set), refusal(lake.CreateTable(ctx, in("none", "t"), schema)),
			refusal(lake.CreateView(ctx, in("none", "v"), query("SELECT 1"), schema)))
		for _, err := range lake.ListTables(ctx, none) {
			refused(catalog.ErrNoSuchNamespace, err)
		}
		refused(catalog.ErrNoSuchTable, refusal(lake.LoadTable(ctx, none)), refusal(lake.LoadTable(ctx, in("none", "none"))),
			lake.DropTable(ctx, none), lake.PurgeTable(ctx, none), refusal(lake.RenameTable(ctx, none, in("other"))),
			refusal(lake.UpdateTable(ctx, none, []table.Requirement{}, update)),
			lake.CommitTransaction(ctx, []table.TableCommit{{Identifier: none, Updates: update}}))
		refused(catalog.ErrNoSuchView, refusal(lake.LoadView(ctx, none)), lake.DropView(ctx, none), refusal(lake.RenameView(ctx, none, in("other"))))
	}},
	// The client refuses tables below a slash, and does not escape a % in the name of a table: only namespaces have them here.
	{"odd names", func() {
		for number, name := range []string{"a.b", "with space", "ünï-çødé 日本 🧊", "plus+sign", "q?mark", "hash#", "quote'\"", "a&b=c", "semi;colon",
			"a:b", "CASE", "case", "~", "a\\b", "{}", "*"} {
			parent, slash := fmt.Sprint("odd", number), "/%20"+name
			note = name
			newSpace(parent)
			newSpace(parent, name)
			newSpace(parent, slash)
			newSpace(parent, slash, "child")
			equal("children", must(lake.ListNamespaces(ctx, in(parent, slash))), []table.Identifier{in(parent, slash, "child")})
			add(must(lake.CreateTable(ctx, in(parent, name, name), schema)), 1)
			equal("exists", must(lake.CheckTableExists(ctx, in(parent, name, name))), true)
			add(load(parent, name, name), 2)
			must(lake.RenameTable(ctx, in(parent, name, name), in(parent, name+"!")))
			stored([]int64{1, 2}, parent, name+"!")
		}
		note = ""
	}},
}

func newSpace(names ...string) {
	done(lake.CreateNamespace(ctx, in(names...), iceberg.Properties{"owner": "checks"}))
}
