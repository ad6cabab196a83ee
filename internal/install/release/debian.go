package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// debPackage is one package of the distribution in the cache.
type debPackage struct {
	Name    string
	Version string
	// File is the name of the .deb in the step's folder.
	File   string
	Digest string
	// Size is that of the .deb, in bytes.
	Size int64
}

// distribution runs apt with a state of its own: it reads the machine's
// sources, resolves as if nothing were installed, and installs nothing.
type distribution struct {
	dir string
	// sources are the machine's own, restricted to those of its distribution.
	sources string

	mu sync.Mutex // apt's own folders allow one run at a time
	// fresh is true if this build has read the lists.
	fresh bool
}

// The files with the machine's distribution and package sources.
const (
	aptDir    = "/etc/apt"
	osRelease = "/etc/os-release"
)

func openDistribution(cacheDir string) (*distribution, error) {
	codename, err := readCodename(osRelease)
	if err != nil {
		return nil, err
	}
	sources, err := readSources(aptDir, codename)
	if err != nil {
		return nil, err
	}
	return &distribution{dir: filepath.Join(cacheDir, "apt"), sources: sources}, nil
}

var codenameLine = regexp.MustCompile(`(?m)^VERSION_CODENAME="?([a-z]+)"?$`)

func readCodename(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("determine the distribution: %w", err)
	}
	m := codenameLine.FindSubmatch(data)
	if m == nil {
		return "", fmt.Errorf("%s names no VERSION_CODENAME: the images of keepalived and haproxy are made of Debian packages, build on Debian or Ubuntu", path)
	}
	return string(m[1]), nil
}

// readSources collects the machine's apt sources whose suites belong to the
// distribution itself; third-party repositories are no input to a release. The
// result is one deb822 file.
func readSources(dir, codename string) (string, error) {
	lists, _ := filepath.Glob(filepath.Join(dir, "sources.list.d", "*.list")) // the pattern is constant
	stanzas, _ := filepath.Glob(filepath.Join(dir, "sources.list.d", "*.sources"))
	var out []string
	for _, path := range append([]string{filepath.Join(dir, "sources.list")}, lists...) {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		out = append(out, fromLines(string(data), codename)...)
	}
	for _, path := range stanzas {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		out = append(out, fromStanzas(string(data), codename)...)
	}
	if len(out) == 0 {
		return "", fmt.Errorf("%s names no repository of %s", dir, codename)
	}
	return strings.Join(out, "\n\n") + "\n", nil
}

var sourceLine = regexp.MustCompile(`^deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+(.+)$`)

// fromLines converts one-line sources to stanzas.
func fromLines(text, codename string) []string {
	var out []string
	for line := range strings.Lines(text) {
		m := sourceLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || !strings.HasPrefix(m[3], codename) {
			continue
		}
		stanza := []string{"Types: deb", "URIs: " + m[2], "Suites: " + m[3], "Components: " + m[4]}
		for opt := range strings.FieldsSeq(m[1]) {
			if key, ok := strings.CutPrefix(opt, "signed-by="); ok {
				stanza = append(stanza, "Signed-By: "+key)
			}
		}
		out = append(out, strings.Join(stanza, "\n"))
	}
	return out
}

// fromStanzas returns the stanzas whose suites all belong to the distribution.
func fromStanzas(text, codename string) []string {
	var out []string
	for stanza := range strings.SplitSeq(text, "\n\n") {
		var lines []string
		suites, disabled := []string(nil), false
		for line := range strings.Lines(stanza) {
			line = strings.TrimRight(line, "\r\n")
			if strings.HasPrefix(line, "#") || line == "" {
				continue
			}
			lines = append(lines, line)
			key, value, _ := strings.Cut(line, ":")
			switch strings.ToLower(key) {
			case "suites":
				suites = strings.Fields(value)
			case "enabled":
				disabled = strings.TrimSpace(value) == "no"
			}
		}
		foreign := slices.ContainsFunc(suites, func(s string) bool { return !strings.HasPrefix(s, codename) })
		if len(suites) > 0 && !foreign && !disabled {
			out = append(out, strings.Join(lines, "\n"))
		}
	}
	return out
}

// args returns the options that give apt its own state below dir.
func (d *distribution) args(archives string) []string {
	opts := []string{
		"Dir::State=" + d.dir, "Dir::State::status=" + filepath.Join(d.dir, "status"),
		"Dir::State::lists=" + filepath.Join(d.dir, "lists"), "Dir::Cache=" + d.dir,
		"Dir::Cache::archives=" + archives, "Dir::Etc::sourcelist=/dev/null",
		"Dir::Etc::sourceparts=" + filepath.Join(d.dir, "sources.list.d"),
		"APT::Install-Recommends=false", "APT::Install-Suggests=false", "APT::Sandbox::User=",
		"Acquire::Languages=none", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		"Debug::NoLocking=true",
	}
	var args []string
	for _, o := range opts {
		args = append(args, "-o", o)
	}
	return append(args, "-qq", "-y")
}

// update reads the present package lists of the repositories, once per build.
func (d *distribution) update(ctx context.Context) error {
	if d.fresh {
		return nil
	}
	for _, sub := range []string{"lists/partial", "sources.list.d"} {
		if err := os.MkdirAll(filepath.Join(d.dir, sub), 0o755); err != nil {
			return err
		}
	}
	if err := host.WriteFileAtomic(filepath.Join(d.dir, "status"), nil, 0o644); err != nil {
		return err
	}
	// A source may contain an account at the mirror.
	if err := host.WriteFileAtomic(filepath.Join(d.dir, "sources.list.d", "distribution.sources"), []byte(d.sources), 0o600); err != nil {
		return err
	}
	if err := d.apt(ctx, append(d.args("/nonexistent"), "update")...); err != nil {
		return fmt.Errorf("read the distribution's package lists: %w", err)
	}
	d.fresh = true
	return nil
}

func (d *distribution) apt(ctx context.Context, args ...string) error {
	cmd := host.Command("apt-get", args...)
	cmd.Env = []string{"LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}
	_, err := host.Run(ctx, cmd)
	return err
}

// fetch downloads packages with all their dependencies into dir.
func (d *distribution) fetch(ctx context.Context, dir string, names []string) ([]debPackage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, filepath.Join(d.dir, "lock")) // other builds use the lists too
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := d.update(ctx); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o755); err != nil {
		return nil, err
	}
	args := append(d.args(dir), "install", "--download-only")
	if err := d.apt(ctx, append(args, names...)...); err != nil {
		return nil, fmt.Errorf("fetch packages %s: %w", strings.Join(names, ", "), err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return nil, err
	}
	var out []debPackage
	for _, path := range files {
		p, err := describeDeb(path)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, os.RemoveAll(filepath.Join(dir, "partial"))
}

// describeDeb takes the name and version from apt's file name,
// NAME_VERSION_ARCH.deb, in which a colon is written as %3a.
func describeDeb(path string) (debPackage, error) {
	parts := strings.Split(filepath.Base(path), "_")
	if len(parts) != 3 {
		return debPackage{}, fmt.Errorf("%s is not named like a package", path)
	}
	version, err := url.PathUnescape(parts[1])
	if err != nil {
		return debPackage{}, err
	}
	digest, size, err := digestFile(path)
	return debPackage{Name: parts[0], Version: version, File: filepath.Base(path), Digest: digest, Size: size}, err
}

// unpackDeb returns the content of a package as a tar file.
func unpackDeb(ctx context.Context, path string) (*bytes.Buffer, error) {
	var out bytes.Buffer
	cmd := host.Command("dpkg-deb", "--fsys-tarfile", path)
	cmd.Stdout = &out
	_, err := host.Run(ctx, cmd)
	return &out, err
}

// distribution opens apt once per build.
func (b *builder) distribution() (*distribution, error) {
	b.distOnce.Do(func() { b.dist, b.distErr = openDistribution(b.cache.dir) })
	return b.dist, b.distErr
}
