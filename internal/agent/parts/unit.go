package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusterversion"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// The files between the agent and the unit. They go with the boot: what was brought
// before it may be brought once more.
const (
	Folder      = "/run/holdfast/bring"
	RequestPath = Folder + "/request.json"
	StatePath   = Folder + "/state.json"
)

// State is how a run of the unit ended. It writes the file last.
type State struct {
	// Request is the text of the request, and Failed why the part was not brought.
	Request string `json:"request"`
	Failed  string `json:"failed,omitempty"`
	// Undone is true if it was brought, did not start, and was set back.
	Undone bool `json:"undone,omitempty"`
}

// ThisUnit returns the unit of this host. Its file is written for each part.
func ThisUnit() Unit {
	return Unit{
		Start: func(ctx context.Context, request, digest, part string) error {
			if err := release.Placed("/", digest); err != nil {
				return err
			}
			if err := host.RemoveFile(StatePath); err != nil {
				return err
			}
			if err := host.WriteFileAtomic(RequestPath, []byte(request), 0o644); err != nil {
				return err
			}
			return host.StartUnit(ctx, renderhost.BringUnit, renderhost.Bring(digest, part))
		},
		Works: func(ctx context.Context) (bool, int, error) {
			works, err := host.UnitWorks(ctx, renderhost.BringUnit)
			if err != nil || works {
				return err == nil, 0, err
			}
			text, err := host.UnitProperty(ctx, renderhost.BringUnit, "ExecMainStatus")
			code, _ := strconv.Atoi(text) // without a number nothing is known of its end
			return false, code, err
		},
		State: func() (State, error) { return host.ReadState[State](StatePath) },
	}
}

// OwnRelease returns the digest of the release whose program has a path.
func OwnRelease(program string) (string, error) {
	rest, ours := strings.CutPrefix(program, payload.ReleasesDir+"/")
	hex, _, _ := strings.Cut(rest, "/")
	digest, ok := clusterversion.Digest("sha256:" + hex)
	if !ours || !ok {
		return "", fmt.Errorf("%s is no program of a release in %s: run the one of the release that is to be brought, for example %s",
			program, payload.ReleasesDir, path.Join(payload.CurrentRelease, "usr/local/bin/holdfast-agent"))
	}
	return digest, nil
}

// BringHere brings a part of the release of this program by the administrator's access of
// this host, and writes how it ended for the agent, if that asks for it. It returns the
// objects that were left as somebody has changed them.
func BringHere(ctx context.Context, s *site.Site, part string) ([]state.ObjectRef, error) {
	digest, err := ownRelease()
	var left []state.ObjectRef
	if err == nil {
		left, err = bringHere(ctx, s, digest, part)
	}
	request, wrong := os.ReadFile(RequestPath)
	if wrong != nil || !asks(string(request), digest, part) {
		return left, err // a person runs it, or a unit of which systemd has not read the file anew
	}
	said := State{Request: string(request)}
	if err != nil {
		said.Failed, said.Undone = err.Error(), errors.As(err, new(UndoneError))
	}
	text, wrong := json.Marshal(said)
	if wrong == nil {
		wrong = host.WriteFileAtomic(StatePath, text, 0o644)
	}
	return left, errors.Join(err, wrong)
}

// asks reports whether a request is for a part of a release. One that this program cannot read
// may be: a later agent wrote it.
func asks(request, digest, part string) bool {
	wish, err := annotation.Decode[annotation.Part](request)
	of, _ := clusterversion.Digest(wish.Release)
	return err != nil || of == digest && wish.Part == part
}

func ownRelease() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	return OwnRelease(program)
}

func bringHere(ctx context.Context, s *site.Site, digest, part string) ([]state.ObjectRef, error) {
	client, err := kube.Open(state.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	b, err := NewBringer(client.Bringer(), s, digest)
	if err != nil {
		return nil, err
	}
	err = b.Bring(ctx, part)
	return b.Left, err
}
