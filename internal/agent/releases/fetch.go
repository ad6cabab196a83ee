package releases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// The files between the agent and the unit. They go with the boot: what was compared
// before it is compared once more.
const (
	Folder      = "/run/holdfast/fetch"
	RequestPath = Folder + "/request.json"
	StatePath   = Folder + "/state.json"
)

// State is how far the unit is with a request. It is one file, which the unit writes
// and the agent reads.
type State struct {
	// Request is the text of the request.
	Request string `json:"request"`
	// Doing says what it does, with a figure; empty once it has ended. Failed is why it
	// ended without all that was wanted.
	Doing  string `json:"doing,omitempty"`
	Failed string `json:"failed,omitempty"`
	// Kept says why a release that nobody wants is still there.
	Kept string `json:"kept,omitempty"`
}

// Fetcher carries a request out. Everything that it does may be cut off at any point
// and done again.
type Fetcher struct {
	Host
	// Sources returns where releases are to be had.
	Sources func(annotation.Sources) []release.Source
	// Place puts programs of a release beside the others, and Remove takes them away,
	// unless they are current, previous or in use.
	Place  func(ctx context.Context, s *release.Store) error
	Remove func(digest string) error
	// Kept are the current and the previous release.
	Kept func() ([]string, error)
	// Etcd has podman have the image of etcd by its full name; nil where kubelet runs
	// etcd, or nobody does.
	Etcd func(ctx context.Context, name string, write func(io.Writer) error) error
	// Forget has podman no longer have that image. It fails if a container uses the image.
	Forget func(ctx context.Context, name string) error
	// Free returns how many bytes may still be written where containers lie.
	Free func() (uint64, error)
	// Say takes in how far it is.
	Say func(State)

	state State
}

// NewFetcher returns the one of this host. pair is true for a control plane of two.
func NewFetcher(controlPlane, pair bool) *Fetcher {
	h := ThisHost(controlPlane)
	h.Shelf.Line = ownLine()
	f := &Fetcher{
		Host: h, Sources: h.sources, Remove: func(digest string) error { return release.Remove(h.Root, digest) },
		Place: func(ctx context.Context, s *release.Store) error { return s.Place(ctx, h.Root) },
		Kept:  h.kept,
		Free:  func() (uint64, error) { return host.FreeSpace("/var/lib/containerd") },
		Say:   sayer(time.Now),
	}
	if pair {
		f.Etcd, f.Forget = podman.Ensure, podman.RemoveImage
	}
	return f
}

// sources asks first what lies here: releases share most of their blobs.
func (h Host) sources(s annotation.Sources) []release.Source {
	var out []release.Source
	for _, dir := range append([]string{filepath.Join(h.Root, payload.LayoutsDir)}, h.Installed...) {
		out = append(out, release.Folder(dir))
	}
	if s.Folder != "" {
		out = append(out, release.Folder(s.Folder))
	}
	if s.Registry != "" {
		out = append(out, release.Registry{Repository: s.Registry, CAFile: host.TrustFile(h.Root)})
	}
	return out
}

func (h Host) kept() ([]string, error) {
	now, err := release.Current(h.Root)
	if err != nil {
		return nil, err
	}
	was, err := release.Previous(h.Root)
	return []string{now, was}, err
}

// sayEvery is the least time between two writes of the same work.
const sayEvery = time.Second

// sayer writes the state's file. That it cannot be written ends no fetch.
func sayer(now func() time.Time) func(State) {
	var last time.Time
	return func(s State) {
		if s.Doing != "" && now().Sub(last).Abs() < sayEvery {
			return
		}
		last = now()
		if text, err := json.Marshal(s); err == nil {
			_ = host.WriteFileAtomic(StatePath, text, 0o644)
		}
	}
}

// Run carries out the request in RequestPath.
func (f *Fetcher) Run(ctx context.Context) error {
	text, err := os.ReadFile(RequestPath)
	if err != nil {
		return fmt.Errorf("nobody wants a release: %w", err)
	}
	return f.Do(ctx, string(text))
}

// Do takes away the releases that nobody needs, so that their room is for what comes, and
// brings all releases of a request, which has the form of annotation.Fetch, to this host,
// one after the other. What cannot be taken away stops none of them.
func (f *Fetcher) Do(ctx context.Context, request string) error {
	f.state = State{Request: request}
	wish, err := annotation.Decode[annotation.Fetch](request)
	if err != nil {
		err = fmt.Errorf("which releases are wanted: %w", err)
	}
	var left error
	if len(wish.Wanted) > 0 && err == nil {
		left = f.tidy(ctx, wish.Wanted)
	}
	for _, digest := range wish.Wanted {
		if e := f.bring(ctx, digest, f.Sources(wish.Sources)); e != nil {
			err = errors.Join(err, fmt.Errorf("release %s: %w", digest, e))
		}
	}
	switch {
	case err != nil:
		err = errors.Join(err, left)
	case len(wish.Wanted) > 0:
		err = f.tidy(ctx, wish.Wanted) // programs may have ended meanwhile
	}
	f.state.Doing = ""
	if err != nil {
		f.state.Failed = err.Error()
	}
	f.Say(f.state)
	return err
}

func (f *Fetcher) doing(format string, args ...any) {
	f.state.Doing = fmt.Sprintf(format, args...)
	f.Say(f.state)
}

// bring has a release lie here whole, and compares each byte of it.
func (f *Fetcher) bring(ctx context.Context, digest string, from []release.Source) error {
	store, err := f.layout(ctx, digest, from)
	if err != nil {
		return err
	}
	f.doing("puts the programs of %s in place", digest)
	if err := f.Place(ctx, store); err != nil {
		return err
	}
	if err := release.Verify(f.Root, digest); err != nil {
		return err
	}
	return f.images(ctx, store)
}

// layout returns the layout of a release, compared with its digest. One on the shelf
// that is damaged is mended, and one elsewhere is fetched.
func (f *Fetcher) layout(ctx context.Context, digest string, from []release.Source) (*release.Store, error) {
	if err := f.clear(digest); err != nil {
		return nil, err
	}
	store, err := f.open(digest)
	if err == nil {
		f.doing("compares %s with its digest", digest)
		if err = store.Compare(ctx); err == nil || ctx.Err() != nil {
			return store, err
		}
		if bad := f.Shelf.Damaged(digest); bad != nil && !errors.Is(bad, fs.ErrNotExist) {
			return nil, errors.Join(err, bad)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f.Shelf.Fetch(ctx, digest, from, func(have, all int64) {
		f.doing("fetches %s: %d of %d MiB", digest, have>>20, all>>20)
	})
}

// clear takes a release off the shelf whose folder does not open as what its name says: its
// index is damaged, and nobody knows its blobs.
func (f *Fetcher) clear(digest string) error {
	if _, err := f.Shelf.Open(digest); err == nil {
		return nil
	}
	lie, err := f.Shelf.Digests()
	if err != nil || !slices.Contains(lie, digest) {
		return err
	}
	return f.Shelf.Remove(digest)
}

// images gives the images of a release to containerd, and to podman.
func (f *Fetcher) images(ctx context.Context, s *release.Store) error {
	held, err := f.Images.List(ctx)
	if err != nil {
		return err
	}
	var missing []release.Image
	var size int64
	for _, i := range f.needed(s) {
		switch have := held[i.Ref]; have.Digest {
		case i.Digest:
		case "":
			missing, size = append(missing, i), size+i.Size
		default:
			return fmt.Errorf("image %s is on this host with other contents, %s and not %s: containers that have it would not be replaced; "+
				"one of the two releases needs another version", i.Ref, have.Digest, i.Digest)
		}
	}
	if err := f.room(size); err != nil {
		return err
	}
	for _, i := range missing {
		f.doing("gives image %s to containerd", i.Ref)
		if err := f.send(ctx, s, i); err != nil {
			return err
		}
	}
	return f.pinAll(ctx, s, held)
}

// room asks for twice the size of images: containerd keeps them as they came, and
// unpacked.
func (f *Fetcher) room(size int64) error {
	if size == 0 {
		return nil
	}
	free, err := f.Free()
	if err != nil {
		return err
	}
	line := f.Shelf.Line
	if need := 2 * uint64(size); free < need+line { //nolint:gosec // sizes are not negative
		return fmt.Errorf("its images need %d MiB where containers lie, beside the %d MiB that must stay free there, and %d MiB are free: make room on that file system",
			need>>20+1, line>>20, free>>20)
	}
	return nil
}

func (f *Fetcher) send(ctx context.Context, s *release.Store, i release.Image) error {
	read, write := io.Pipe()
	go func() { write.CloseWithError(s.WriteImageArchive(write, i.Name)) }()
	err := f.Images.Import(ctx, read)
	_ = read.Close() // the writer must not wait for a containerd that has ended
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Ref, err)
	}
	return nil
}

// pinAll pins what a release needs, and looks whether all of it came.
func (f *Fetcher) pinAll(ctx context.Context, s *release.Store, before map[string]Held) error {
	for _, i := range f.needed(s) {
		if before[i.Ref].Pinned {
			continue
		}
		if err := f.Images.Pin(ctx, i.Ref, true); err != nil {
			return fmt.Errorf("pin image %s: %w", i.Ref, err)
		}
	}
	for _, i := range f.needed(s) {
		if i.Name != "etcd" || f.Etcd == nil {
			continue
		}
		f.doing("gives image %s to podman", i.Ref)
		if err := f.Etcd(ctx, i.Ref, func(w io.Writer) error { return s.WriteImageArchive(w, i.Name) }); err != nil {
			return err
		}
	}
	after, err := f.Images.List(ctx)
	if err != nil {
		return err
	}
	return f.lacks(s, after)
}

// tidy takes away the releases that are neither wanted nor current nor previous. Those
// whose programs run stay until they have ended. The layout goes last: it names the
// images.
func (f *Fetcher) tidy(ctx context.Context, wanted []string) error {
	kept, err := f.Kept()
	if err != nil {
		return err
	}
	all, err := f.all()
	if err != nil {
		return err
	}
	var stays []string
	for _, digest := range all {
		if slices.Contains(kept, digest) || slices.Contains(wanted, digest) {
			continue
		}
		f.doing("takes %s away", digest)
		if err := f.Remove(digest); err != nil {
			stays = append(stays, err.Error())
			continue
		}
		images, err := f.ownImages(digest, kept, wanted)
		if err != nil {
			return fmt.Errorf("take release %s away: %w", digest, err)
		}
		if err := f.forgetEtcd(ctx, images); err != nil {
			stays = append(stays, fmt.Sprintf("release %s: %v", digest, err))
			continue
		}
		err = f.unpin(ctx, images)
		if err == nil {
			err = f.Shelf.Remove(digest)
		}
		if err != nil {
			return fmt.Errorf("take release %s away: %w", digest, err)
		}
	}
	f.state.Kept = strings.Join(stays, "; ")
	return nil
}

// all lists every release of which something lies here that may be taken away. Of the one
// that an installation left those are programs and pins, also if the programs are gone.
func (f *Fetcher) all() ([]string, error) {
	whole, err := f.layouts()
	if err != nil {
		return nil, err
	}
	begun, err := f.Shelf.Begun()
	if err != nil {
		return nil, err
	}
	programs, err := release.Digests(f.Root)
	out := slices.Concat(whole, begun, programs)
	slices.Sort(out)
	return slices.Compact(out), err
}

// ownImages lists the images of a release that neither a kept one has nor one that is wanted
// and lies here: one that comes has its images pinned then. What every pod's sandbox is made
// of is not among them.
func (f *Fetcher) ownImages(digest string, kept, wanted []string) ([]release.Image, error) {
	store, err := f.open(digest)
	if err != nil {
		return nil, nil //nolint:nilerr // nobody knows its images; a pin that is left does no harm
	}
	sandbox, err := f.sandbox()
	if err != nil {
		return nil, err
	}
	stay := map[string]bool{sandbox: true}
	for _, k := range slices.Concat(kept, wanted) {
		s, err := f.open(k)
		if err != nil {
			if k == "" || !slices.Contains(kept, k) {
				continue
			}
			return nil, nil // it may have any of these images
		}
		for _, i := range s.Manifest().Images {
			stay[i.Ref] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(store.Manifest().Images), func(i release.Image) bool { return stay[i.Ref] }), nil
}

// forgetEtcd has podman no longer have the image of etcd among these. Nothing else removes
// it: kubelet looks after containerd's images only.
func (f *Fetcher) forgetEtcd(ctx context.Context, images []release.Image) error {
	if f.Forget == nil {
		return nil
	}
	for _, i := range images {
		if i.Name != "etcd" {
			continue
		}
		if err := f.Forget(ctx, i.Ref); err != nil {
			return err
		}
	}
	return nil
}

// unpin lets kubelet remove images.
func (f *Fetcher) unpin(ctx context.Context, images []release.Image) error {
	held, err := f.Images.List(ctx)
	if err != nil {
		return err
	}
	for _, i := range images {
		if have := held[i.Ref]; !have.Pinned || have.Digest != i.Digest {
			continue
		}
		if err := f.Images.Pin(ctx, i.Ref, false); err != nil {
			return err
		}
	}
	return nil
}

// sandbox returns the image of which containerd makes every pod's sandbox. Its configuration
// is that of the installation for good, whichever releases follow.
func (h Host) sandbox() (string, error) {
	text, err := os.ReadFile(filepath.Join(h.Root, renderhost.ContainerdPath))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return renderhost.Sandbox(text), err
}
