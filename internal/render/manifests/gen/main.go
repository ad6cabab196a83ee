// Command gen copies the definitions of the kinds that Holdfast uses out of
// the API's module: `gen SOURCE DESTINATION`. Where the module has a variant
// for each feature set it takes the one with everything in it, since two
// control planes need CustomNoUpgrade and one definition serves all sites.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// plurals are the kinds that are rendered, by the part of the API's module
// that they come from.
var plurals = map[string][]string{
	"config-operator": {"dnses", "featuregates", "infrastructures", "ingresses", "networks", "proxies", "schedulers"},
	"etcd":            {"etcds"},
}

// variants are the endings of a definition's name, the wanted one first.
var variants = []string{"-SelfManagedHA-CustomNoUpgrade", "-CustomNoUpgrade", ""}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen SOURCE DESTINATION")
		os.Exit(2) //nolint:forbidigo // this is main
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(source, destination string) error {
	old, err := filepath.Glob(filepath.Join(destination, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for part, kinds := range plurals {
		for _, plural := range kinds {
			if err := copyKind(source, destination, part, plural); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyKind(source, destination, part, plural string) error {
	for _, variant := range variants {
		found, err := filepath.Glob(filepath.Join(source, "*_"+part+"_01_"+plural+variant+".crd.yaml"))
		if err != nil {
			return err
		}
		if len(found) != 1 {
			continue
		}
		data, err := os.ReadFile(found[0])
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(destination, plural+".yaml"), data, 0o644)
	}
	return fmt.Errorf("the module has no single definition of %s", plural)
}
