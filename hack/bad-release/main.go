// Command bad-release makes releases that are bad on purpose out of the present one, for the
// upgrades of the lab:
//
//	go run ./hack/bad-release [-from _output/release] -to FOLDER [KIND...]
//
// In FOLDER each kind has a folder of its name, and "good" is a copy of the release itself;
// without a KIND all are made. FOLDER is meant as the stick of a lab. What is up to date
// stays. It takes seconds, and no network.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/lab/badrelease"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bad-release:", err)
		os.Exit(1) //nolint:forbidigo // this is a main
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bad-release", flag.ContinueOnError)
	from := flags.String("from", "_output/release", "folder of the good release")
	to := flags.String("to", "", "folder for the bad ones")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *to == "" {
		return errors.New("-to FOLDER is missing, for example -to _output/bad")
	}
	kinds, err := wanted(flags.Args())
	if err != nil {
		return err
	}
	store, err := release.Open(*from)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-broken-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is below the folder for temporary files

	var programs [2][]byte // the second one is quiet
	for i, quiet := range []string{"", "yes"} {
		if programs[i], err = broken(ctx, filepath.Join(dir, "broken"), quiet); err != nil {
			return err
		}
	}
	return makeAll(store, *to, programs, kinds, out)
}

// makeAll makes the kinds and the copy, and leaves what is up to date. Beside each folder a file
// says of what it was made.
func makeAll(good *release.Store, to string, programs [2][]byte, kinds []badrelease.Kind, out io.Writer) error {
	of := fmt.Sprintf("%s %x\n", good.Manifest().Digest, sha256.Sum256(bytes.Join(programs[:], nil)))
	err := upToDate(filepath.Join(to, badrelease.Good), of, func(dir string) error { return badrelease.Copy(good.Dir(), dir) })
	for _, k := range kinds {
		if err != nil {
			return err
		}
		dir, program := filepath.Join(to, k.Name), programs[0]
		if k.Quiet {
			program = programs[1]
		}
		if err = upToDate(dir, of, func(dir string) error { return badrelease.Make(k, good.Dir(), dir, program) }); err != nil {
			return err
		}
		var store *release.Store
		if store, err = release.Open(dir); err == nil {
			_, err = fmt.Fprintf(out, "%s  %s: %s\n", store.Manifest().Digest, dir, k.What)
		}
	}
	return err
}

func upToDate(dir, of string, do func(dir string) error) error {
	said := dir + ".made"
	if have, err := os.ReadFile(said); err == nil && string(have) == of { // #nosec G304 -- the user's folder
		if _, err := release.Open(dir); err == nil {
			return nil
		}
	}
	if err := errors.Join(os.RemoveAll(said), os.MkdirAll(filepath.Dir(dir), 0o755), do(dir)); err != nil { // #nosec G301 -- a release is for everybody
		return err
	}
	return host.WriteFileAtomic(said, []byte(of), 0o644)
}

// wanted returns the kinds of these names, all without one.
func wanted(names []string) ([]badrelease.Kind, error) {
	if len(names) == 0 {
		return badrelease.Kinds(), nil
	}
	var out []badrelease.Kind
	for _, name := range names {
		k, err := badrelease.Named(name)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// broken builds the program that takes the places.
func broken(ctx context.Context, path, quiet string) ([]byte, error) {
	cmd := host.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X main.quiet="+quiet, "-o", path, "./hack/bad-release/broken")
	cmd.Env = []string{"CGO_ENABLED=0"} // images have no libraries
	if _, err := host.Run(ctx, cmd); err != nil {
		return nil, fmt.Errorf("build the program that breaks: %w", err)
	}
	return os.ReadFile(path) // #nosec G304 -- just built
}
