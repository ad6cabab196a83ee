package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// imageName is the name of the host image in podman; its tag is the hash of its
// sources.
const imageName = "localhost/holdfast-host"

// labPackages are the packages that a lab host needs besides those of its role:
// an init and tools for a look around.
var labPackages = []string{
	"systemd", "systemd-sysv", "dbus", "procps", "iproute2", "iputils-ping", "less",
	"ca-certificates", "curl", "jq", "tcpdump", "strace",
}

// customize is run by mmdebstrap with the root of the new image as its
// argument, after all packages are installed.
//
//go:embed image.sh
var customize string

// Image holds what a host image is built from.
type Image struct {
	Suite    string
	Packages []string
	// Sources are files in the format of sources.list(5), taken from the
	// machine itself: the lab uses the mirror that the machine uses.
	Sources []string
	content []byte
}

// HostImage describes the image for hosts with the given packages, reading
// the machine's own Debian package sources below root ("/" outside tests).
func HostImage(root string, packages []string) (Image, error) {
	img := Image{Packages: sortedUnion(labPackages, packages)}
	suite, err := debianSuite(root)
	if err != nil {
		return Image{}, err
	}
	img.Suite = suite
	files, err := sourceFiles(root)
	if err != nil {
		return Image{}, err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return Image{}, err
		}
		if mentionsSuite(data, suite) {
			img.Sources = append(img.Sources, f)
			img.content = append(img.content, data...)
		}
	}
	if len(img.Sources) == 0 {
		return Image{}, fmt.Errorf("no package source for Debian %s below %s: add one (see sources.list(5))", suite, filepath.Join(root, "etc/apt"))
	}
	return img, nil
}

func sortedUnion(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}

// debianSuite returns the machine's release name. Hosts run the same Debian as
// the machine.
func debianSuite(root string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return "", err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[key] = strings.Trim(value, `"`)
	}
	if fields["ID"] != "debian" || fields["VERSION_CODENAME"] == "" {
		return "", fmt.Errorf("the lab's hosts are built from the machine's own Debian package sources, and this machine is %q: run the lab on Debian", fields["ID"])
	}
	return fields["VERSION_CODENAME"], nil
}

// sourceFiles lists the active apt source files, in apt's order.
func sourceFiles(root string) ([]string, error) {
	var out []string
	for _, pattern := range []string{"etc/apt/sources.list", "etc/apt/sources.list.d/*.list", "etc/apt/sources.list.d/*.sources"} {
		list, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// mentionsSuite reports whether a source file offers the suite: third-party
// sources name their own.
func mentionsSuite(data []byte, suite string) bool {
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if slices.Contains(fields, suite) && (fields[0] == "deb" || strings.EqualFold(fields[0], "Suites:")) {
			return true
		}
	}
	return false
}

// Tag returns the hash of everything the image is built from, without the state
// of the package mirror. It changes when the image must be built again.
func (i Image) Tag() string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s %s\n%s\n%s\n", i.Suite, runtime.GOARCH, strings.Join(i.Packages, ","), customize)
	sum.Write(i.content)
	return fmt.Sprintf("%x", sum.Sum(nil))[:16]
}

// Ref returns the name under which podman knows the image.
func (i Image) Ref() string { return imageName + ":" + i.Tag() }

// Ensure builds and imports the image unless podman has it. The cache keeps the
// archive, so that an emptied podman store costs seconds only.
func (i Image) Ensure(ctx context.Context, cache string, log io.Writer) error {
	if _, err := podman(ctx, "image", "exists", i.Ref()); err == nil {
		return nil
	}
	dir := filepath.Join(cache, "hosts")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	release, err := waitLock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer release()
	archive := filepath.Join(dir, i.Tag()+".tar")
	if !exists(archive) {
		_, _ = fmt.Fprintf(log, "building the host image from %d packages (about a minute)\n", len(i.Packages))
		if err := i.build(ctx, archive, log); err != nil {
			return err
		}
		prune(ctx, dir)
	}
	_, _ = fmt.Fprintf(log, "importing the host image\n")
	if _, err := podman(ctx, "import", "--quiet", archive, i.Ref()); err != nil {
		return fmt.Errorf("import host image: %w", err)
	}
	return nil
}

// keepImages is the number of host images that stay in the cache: some for the
// current kinds of labs, some to go back to.
const keepImages = 4

// prune drops the oldest images. One that a lab uses stays in podman.
func prune(ctx context.Context, dir string) {
	archives, _ := filepath.Glob(filepath.Join(dir, "*.tar")) // the pattern is valid
	slices.SortFunc(archives, func(a, b string) int { return modTime(b).Compare(modTime(a)) })
	for _, old := range archives[min(keepImages, len(archives)):] {
		_ = os.Remove(old)
		_, _ = podman(ctx, "image", "rm", imageName+":"+strings.TrimSuffix(filepath.Base(old), ".tar"))
	}
}

func modTime(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// build makes the archive in a scratch directory beside it and renames it into
// place, so that a killed build leaves no half archive.
func (i Image) build(ctx context.Context, archive string, log io.Writer) error {
	// The builds that made these were killed, because this one holds the lock.
	stale, _ := filepath.Glob(filepath.Join(filepath.Dir(archive), ".build.*")) // the pattern is valid
	for _, dir := range stale {
		_ = os.RemoveAll(dir)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(archive), ".build.*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	hook := filepath.Join(scratch, "customize")
	if err := writeScript(hook, customize); err != nil {
		return err
	}
	part := filepath.Join(scratch, "image.tar")
	args := []string{
		"--variant=minbase", "--mode=root", "--format=tar", "--include=" + strings.Join(i.Packages, ","),
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/info/*",
		"--customize-hook=" + hook, i.Suite, part,
	}
	// mmdebstrap runs in a session of its own: when it is ended, it ends its
	// whole process group, which would be ours.
	cmd := host.Command("setsid", slices.Concat([]string{"mmdebstrap"}, args, i.Sources)...)
	cmd.Env = []string{"TMPDIR=" + scratch, "SOURCE_DATE_EPOCH=0"}
	var said bytes.Buffer
	cmd.Stderr = &said
	if _, err := host.Run(ctx, cmd); err != nil {
		_, _ = io.Copy(log, &said)
		return fmt.Errorf("build host image: %w", err)
	}
	return os.Rename(part, archive)
}

func writeScript(path, text string) error {
	return errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, fs.FileMode(0o700)))
}
