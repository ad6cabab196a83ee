// Package releases has the releases lie on this host that the operator wants there: in
// the OCI layout on the shelf, their programs beside those of other releases, and
// their images in containerd, pinned. It tells which lie there whole, what is being
// fetched and why that failed. It switches nothing and restarts nothing.
//
// It owns payload.LayoutsDir, folders in payload.ReleasesDir that are neither current
// nor previous, the pins of releases' images, the unit render/host.FetchUnit, and
// Folder. It reads the annotation annotation.FetchOf of this host's node. While that
// wants nothing, it changes nothing.
//
// The Agent follows the annotation; the Fetcher, a unit of its own at the lowest
// priority, does the work, because the agent may not write where programs lie.
package releases

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/eviction"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ownLine returns what has to stay free on this host, whose largest file system of those that fill counts.
func ownLine() uint64 {
	var size uint64
	for _, dir := range []string{"/var/lib/holdfast", "/var/lib/containerd"} {
		if _, s, err := host.Space(dir); err == nil {
			size = max(size, s)
		}
	}
	return eviction.Kept(eviction.Thresholds("/"), size)
}

// answerIn is how long containerd may take to list its images. It takes milliseconds. One that
// hangs keeps a connection open for ever, and a host that has to return from it waits here.
const answerIn = 10 * time.Second

// Held is an image as a host holds it.
type Held struct {
	Digest string
	// Pinned is true if kubelet may not remove it.
	Pinned bool
}

// Images is what a host's containers start from.
type Images interface {
	// List returns each image by its full name.
	List(ctx context.Context) (map[string]Held, error)
	// Import takes the images of an OCI archive. It compares each blob with its digest, and
	// returns once their files are durable.
	Import(ctx context.Context, archive io.Reader) error
	// Pin keeps kubelet from removing an image, or lets it.
	Pin(ctx context.Context, name string, pinned bool) error
}

// Host is what lies on a host of releases. Its methods change nothing.
type Host struct {
	// Root is "/" except in tests.
	Root  string
	Shelf release.Shelf
	// Installed are folders in which a release may lie beside the shelf.
	Installed    []string
	ControlPlane bool
	Images       Images
}

// ThisHost returns the releases of this host.
func ThisHost(controlPlane bool) Host {
	return Host{Root: "/", Shelf: release.NewShelf("/", state.KeptFree), Installed: release.Installed("/"), ControlPlane: controlPlane, Images: Containerd{}}
}

// Whole lists the digests of the releases that lie here whole: the layout, which was
// compared with the digest when it was fetched; the programs as they were written and
// compared; the images, whose blobs containerd compares. It is unknown if containerd
// does not answer within answerIn.
func (h Host) Whole(ctx context.Context) state.Fact[[]string] {
	asked, cancel := context.WithTimeoutCause(ctx, answerIn, fmt.Errorf("no answer within %s", answerIn))
	held, err := h.Images.List(asked)
	cancel()
	if err != nil {
		return state.Fact[[]string]{}
	}
	digests, err := h.layouts()
	if err != nil {
		return state.Fact[[]string]{}
	}
	out := []string{}
	for _, digest := range digests {
		store, err := h.open(digest)
		if err == nil && h.lacks(store, held) == nil {
			out = append(out, digest)
		}
	}
	return state.Known(out)
}

// Placed reports whether layout and programs of a release lie here. Its images it leaves out: it
// is for a host whose containerd does not answer.
func (h Host) Placed(digest string) bool {
	_, err := h.open(digest)
	return err == nil && release.Placed(h.Root, digest) == nil
}

// About returns what a release that lies here says of itself. Verified is true if the
// layout lies on the shelf. Without it, or if the release says nothing of itself, the
// error says so.
func (h Host) About(digest string) (gate.Release, error) {
	store, err := h.open(digest)
	if err != nil {
		return gate.Release{}, fmt.Errorf("release %s: %w", digest, err)
	}
	about, err := store.Manifest().Release()
	if err != nil {
		return gate.Release{}, err
	}
	if !about.Known {
		return gate.Release{}, fmt.Errorf("release %s is of a time before releases said what they are", digest)
	}
	about.Value.Verified = true // the index has the digest, and lacks asks for the rest
	return about.Value, nil
}

// layouts lists the releases whose layout lies here, sorted.
func (h Host) layouts() ([]string, error) {
	out, err := h.Shelf.Digests()
	if err != nil {
		return nil, err
	}
	for _, dir := range h.Installed {
		if store, err := release.Open(dir); err == nil {
			out = append(out, store.Manifest().Digest)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// open opens a release where it lies. Without it the error is fs.ErrNotExist.
func (h Host) open(digest string) (*release.Store, error) { return h.Shelf.Find(digest, h.Installed) }

// needed lists the images of a release that this host needs.
func (h Host) needed(s *release.Store) []release.Image {
	return slices.DeleteFunc(slices.Clone(s.Manifest().Images), func(i release.Image) bool { return !payload.Needed(i.Name, h.ControlPlane) })
}

// lacks returns what this host lacks of a release whose layout lies here.
func (h Host) lacks(s *release.Store, held map[string]Held) error {
	if err := release.Placed(h.Root, s.Manifest().Digest); err != nil {
		return err
	}
	for _, i := range h.needed(s) {
		if have := held[i.Ref]; have.Digest != i.Digest || !have.Pinned {
			return fmt.Errorf("image %s is not there", i.Ref)
		}
	}
	return nil
}

// Containerd is the one of this host, in the namespace of kubelet's containers.
type Containerd struct{}

const pin = "io.cri-containerd.pinned"

func ctr(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	return host.Run(ctx, host.Cmd{Name: "ctr", Args: append([]string{"-n", "k8s.io"}, args...), Stdin: in})
}

// List implements Images.
func (Containerd) List(ctx context.Context) (map[string]Held, error) {
	out, err := ctr(ctx, nil, "images", "ls")
	if err != nil {
		return nil, fmt.Errorf("ask containerd for its images: %w", err)
	}
	return held(string(out)), nil
}

// held reads the table of `ctr images ls`: name, type, digest, size, platforms and
// labels, with a line of titles.
func held(table string) map[string]Held {
	out := map[string]Held{}
	for text := range strings.Lines(table) {
		fields := strings.Fields(text)
		if len(fields) < 3 || !strings.HasPrefix(fields[2], "sha256:") {
			continue
		}
		out[fields[0]] = Held{Digest: fields[2], Pinned: slices.Contains(strings.Split(fields[len(fields)-1], ","), pin+"=pinned")}
	}
	return out
}

// Import implements Images. containerd makes its own memory of an image durable, and the
// files that it has unpacked only with --sync-fs: a power cut right after would leave an
// image that it lists whole, with files that are empty.
func (Containerd) Import(ctx context.Context, archive io.Reader) error {
	if _, err := ctr(ctx, archive, "images", "import", "--local", "--sync-fs", "-"); err != nil {
		return fmt.Errorf("give images to containerd: %w", err)
	}
	return nil
}

// Pin implements Images.
func (Containerd) Pin(ctx context.Context, name string, pinned bool) error {
	label := pin + "="
	if pinned {
		label += "pinned"
	}
	_, err := ctr(ctx, nil, "images", "label", name, label)
	return err
}
