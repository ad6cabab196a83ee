package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// pkg is a package to change.
type pkg struct {
	name  string // its directory below the working directory
	dir   string
	files []string
}

// list returns the packages of some patterns.
func list(ctx context.Context, patterns []string) ([]pkg, error) {
	args := append([]string{"list", "-f", `{{.Dir}} {{join .GoFiles " "}}`, "--"}, patterns...)
	text, err := host.Run(ctx, host.Command("go", args...))
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var out []pkg
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		name, err := filepath.Rel(here, words[0])
		if err != nil {
			return nil, err
		}
		out = append(out, pkg{name: filepath.ToSlash(name), dir: words[0], files: words[1:]})
	}
	return out, nil
}

// directories returns the directories of package paths that begin with "./".
func directories(packages []string) []string {
	var out []string
	for _, p := range packages {
		out = append(out, filepath.Clean(p))
	}
	return out
}

// source returns the random numbers that draw a package's sample.
func source(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64())) //nolint:gosec // the same seed draws the same sample
}

// rounds bounds how often a package is compiled without the changes that the
// compiler refused.
const rounds = 12

// build compiles the tests of a package, and those of others, with all changes
// built in. It returns the changes that the compiler takes.
func (p pkg) build(ctx context.Context, tmp string, with []string) ([]mutant, error) {
	files, mutants, err := p.read()
	if err != nil || len(mutants) == 0 {
		return nil, err
	}
	refused := make(map[int]bool)
	overlay := filepath.Join(tmp, "overlay.json")
	for range rounds {
		spans, err := p.write(tmp, overlay, files, refused)
		if err != nil {
			return nil, err
		}
		var words bytes.Buffer
		c := host.Command("go", "build", "-gcflags=-e", "-overlay", overlay, p.dir)
		c.Stderr = &words
		_, err = host.Run(ctx, c)
		if err == nil {
			return accepted(mutants, refused), p.tests(ctx, tmp, overlay, with)
		}
		if !refuse(words.String(), spans, refused) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("it does not compile after %d rounds", rounds)
}

// accepted leaves out what the compiler refused.
func accepted(mutants []mutant, refused map[int]bool) []mutant {
	var out []mutant
	for _, m := range mutants {
		if !refused[m.group] {
			out = append(out, m)
		}
	}
	return out
}

// read finds the places to change in a package's sources.
func (p pkg) read() ([]*rewriter, []mutant, error) {
	var files []*rewriter
	var mutants []mutant
	for _, name := range p.files {
		src, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil {
			return nil, nil, err
		}
		r, err := rewrite(p.name+"/"+name, string(src), &mutants)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, r)
	}
	number(mutants)
	return files, mutants, nil
}

// write writes the changed sources, and the file that has the go command read
// them in place of the real ones.
func (p pkg) write(tmp, overlay string, files []*rewriter, refused map[int]bool) (map[string]changed, error) {
	replace := make(map[string]string)
	put := func(name, text string) error {
		replace[filepath.Join(p.dir, name)] = filepath.Join(tmp, name)
		return os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o600)
	}
	out := make(map[string]changed)
	for _, r := range files {
		name := filepath.Base(r.file)
		out[name] = r.apply(refused)
		if err := put(name, out[name].text); err != nil {
			return nil, err
		}
	}
	if err := put("zz_mutants.go", "package "+files[0].pkg+"\n"+support); err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return out, os.WriteFile(overlay, text, 0o600)
}

// tests compiles the test programs.
func (p pkg) tests(ctx context.Context, tmp, overlay string, with []string) error {
	for i, dir := range append([]string{p.dir}, with...) {
		out := testProgram(tmp, i)
		if err := os.Remove(out); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if _, err := host.Run(ctx, host.Command("go", "test", "-c", "-overlay", overlay, "-o", out, dir)); err != nil {
			return err
		}
	}
	return nil
}

func testProgram(tmp string, n int) string { return filepath.Join(tmp, fmt.Sprintf("test%d", n)) }

// complaint matches the compiler's error about one place. For a constant the
// compiler gives no column.
var complaint = regexp.MustCompile(`([\w.-]+\.go):(\d+):(?:(\d+):)? `)

// refuse notes the changes that the compiler complains of: the innermost one
// around a place, or else all that begin on its line. It reports whether it
// found any.
func refuse(words string, files map[string]changed, refused map[int]bool) bool {
	found := false
	for _, m := range complaint.FindAllStringSubmatch(words, -1) {
		line, _ := strconv.Atoi(m[2])
		column, _ := strconv.Atoi(m[3])
		for _, id := range files[m[1]].at(line, column) {
			found = found || !refused[id]
			refused[id] = true
		}
	}
	return found
}
