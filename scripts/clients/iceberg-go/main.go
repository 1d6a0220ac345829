// Runs Apache Iceberg's client for Go against the catalog server at a URL. Prints a line per step, and ends with 1 if one failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/google/uuid"
)

type step struct {
	name string
	run  func() // fails by panicking
}

var (
	ctx   = context.Background()
	space = "go_" + uuid.NewString()[:8] // the namespace of this run
	lake  *rest.Catalog
	note  string // what a step has to tell
)

func connect(properties iceberg.Properties) *rest.Catalog {
	return must(rest.NewCatalog(ctx, "catalog", strings.TrimRight(os.Args[1], "/"), rest.WithAdditionalProps(properties),
		rest.WithOAuthToken(os.Getenv("GLIDEPATH_TOKEN")), rest.WithWarehouseLocation(os.Getenv("GLIDEPATH_WAREHOUSE"))))
}

// attempt returns how a step failed, and the line outside of this file that found it; or nothing.
func attempt(run func()) (failure string) {
	defer func() {
		if caught := recover(); caught != nil {
			file, line := "main.go", 0
			for depth := 1; strings.HasSuffix(file, "main.go") || strings.Contains(file, "/runtime/"); depth++ {
				_, file, line, _ = runtime.Caller(depth)
			}
			failure = strings.Join(strings.Fields(fmt.Sprintf("%s:%d: %v", path.Base(file), line, caught)), " ")
		}
	}()
	run()
	return ""
}

func done(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	done(err)
	return value
}

func equal(what string, found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%s: found %v, expected %v", what, found, expected))
	}
}

// refused checks that each error is the one by which the client tells this case.
func refused(expected error, found ...error) {
	for number, err := range found {
		if !errors.Is(err, expected) {
			panic(fmt.Sprintf("error %d: found %v, expected %v", number, err, expected))
		}
	}
}

func refusal[T any](_ T, err error) error { return err }

func main() {
	steps, failed := slices.Concat(namespaceSteps, tableSteps, commitSteps, viewSteps), []string{}
	for _, step := range steps {
		began, outcome := time.Now(), "passed"
		if failure := attempt(step.run); failure != "" {
			outcome, note, failed = "FAILED", failure+" "+note, append(failed, step.name)
		}
		fmt.Println(outcome, step.name, time.Since(began).Round(time.Millisecond), note)
		note = ""
	}
	fmt.Printf("iceberg-go: %d steps passed, %d failed %s\n", len(steps)-len(failed), len(failed), strings.Join(failed, ", "))
	os.Exit(min(len(failed), 1))
}
