package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// stepVersion is part of every key. Raise it when a step starts to produce
// something else from the same inputs.
const stepVersion = 1

// keyOf hashes inputs. It encodes them as JSON, so that different lists of
// inputs never look the same.
func keyOf(inputs ...any) (string, error) {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, in := range append([]any{stepVersion}, inputs...) {
		if err := enc.Encode(in); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// toolchain holds the other facts that affect a binary's bytes.
type toolchain struct {
	GOVERSION    string
	GOOS         string
	GOARCH       string
	GOEXPERIMENT string
}

func (t toolchain) platform() string { return t.GOOS + "/" + t.GOARCH }

// goEnv is the environment of every go command: settings for a developer's own
// work must not change a release.
var goEnv = []string{
	"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOTOOLCHAIN=local",
	"GOAMD64=v1", "GOARM64=v8.0", "GOOS=linux",
}

func readToolchain(ctx context.Context, root string) (toolchain, error) {
	cmd := host.Command("go", "env", "-json", "GOVERSION", "GOOS", "GOARCH", "GOEXPERIMENT")
	cmd.Env, cmd.Dir = goEnv, root
	out, err := host.Run(ctx, cmd)
	if err != nil {
		return toolchain{}, fmt.Errorf("ask go for its version (is Go installed?): %w", err)
	}
	var t toolchain
	return t, json.Unmarshal(out, &t)
}

// listedPackage holds the needed part of go list's output.
type listedPackage struct {
	Dir                                           string
	GoFiles, SFiles, HFiles, CgoFiles, EmbedFiles []string
	Module                                        *struct{ Main bool }
}

// sourceFiles lists the files in dir from which the component is compiled, with
// go.mod and go.sum: go.sum pins everything else. It leaves out tests.
func sourceFiles(ctx context.Context, dir string, c payload.Component) ([]string, error) {
	files := []string{filepath.Join(dir, "go.mod")}
	if sum := filepath.Join(dir, "go.sum"); host.Exists(sum) {
		files = append(files, sum)
	}
	own := ownPackages(c)
	if len(own) == 0 {
		return allFiles(dir)
	}
	args := []string{
		"list", "-deps", "-tags", strings.Join(c.Tags, ","),
		"-json=Dir,GoFiles,SFiles,HFiles,CgoFiles,EmbedFiles,Module",
	}
	cmd := host.Command("go", append(args, own...)...)
	cmd.Env, cmd.Dir = goEnv, dir
	out, err := host.Run(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("list the sources of %s: %w", c.Name, err)
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	for dec.More() {
		var p listedPackage
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.SFiles, p.HFiles, p.CgoFiles, p.EmbedFiles) {
			files = append(files, filepath.Join(p.Dir, name))
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// allFiles returns the files of a folder that contains only what is needed to
// build a third-party program: go.mod, go.sum, and modules that cannot be
// downloaded.
func allFiles(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// ownPackages returns the component's packages whose code is in its own folder.
func ownPackages(c payload.Component) []string {
	var own []string
	for _, b := range c.Binaries {
		if strings.HasPrefix(b.Package, ".") {
			own = append(own, b.Package)
		}
	}
	return own
}

// hashFiles returns the digest of each file under its path relative to dir, so
// that the place of the clone does not matter.
func hashFiles(dir string, files []string) ([]File, error) {
	out := make([]File, 0, len(files))
	for _, path := range files {
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return nil, err
		}
		digest, size, err := digestFile(path)
		if err != nil {
			return nil, err
		}
		out = append(out, File{Path: filepath.ToSlash(rel), Digest: digest, Size: size})
	}
	return out, nil
}
