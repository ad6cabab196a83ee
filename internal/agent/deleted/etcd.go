package deleted

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/upgrade"
	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/staticpod"
)

// etcdPod is the manifest from which kubelet runs etcd.
const etcdPod = "/etc/kubernetes/manifests/etcd.yaml"

// EtcdRuns reports whether etcd runs that names the authority of this host's cluster. It compares no files:
// whoever deletes data may have deleted or replaced that one too, and etcd runs on with the former one.
func EtcdRuns() (bool, error) { return etcdRuns("") }

func etcdRuns(root string) (bool, error) {
	return host.PodProgram{Root: root, Name: "etcd", Flag: "--trusted-ca-file", File: state.EtcdPKIDir + "/ca.crt"}.Runs()
}

// Etcd is etcd of one of three control planes or more. It never starts from nothing once it was a voter
// (docs/adr/0109).
type Etcd struct {
	// Root is put before every path.
	Root string
	Runs func() (bool, error)
}

// BeforeKubelet seals etcd's manifest before kubelet of this boot starts, and says what it did.
func (e Etcd) BeforeKubelet() (string, error) {
	facts, err := e.look(true)
	said, errSeal := e.seal(facts)
	return said, errors.Join(err, errSeal)
}

// look gathers the facts. What cannot be read is unknown, and an error beside it. A boot seals whatever
// there is of a log, so it does not read the disk of etcd: one that hangs would hold kubelet and the agent,
// which wait for this. Between two boots nothing is decided unless the log is known to be gone, so the rest
// is looked at only then: processes and manifests are too much for every 3 s.
func (e Etcd) look(boot bool) (deleted.Etcd, error) {
	facts := deleted.Etcd{Boot: boot}
	if !boot {
		logs, err := e.log()
		if err != nil {
			return facts, err
		}
		if facts.Log = state.Known(logs); logs {
			return facts, nil
		}
	}
	facts.Pod = host.Exists(e.Root + etcdPod)
	runs, errRuns := e.Runs()
	if errRuns == nil {
		facts.Runs = state.Known(runs)
	}
	unsealed, errPods := e.unsealed()
	facts.Unsealed = len(unsealed) > 0
	return facts, errors.Join(errRuns, errPods)
}

// log reports whether there is a log, by the files by which etcd itself decides.
func (e Etcd) log() (bool, error) {
	list, err := os.ReadDir(filepath.Join(e.Root+state.EtcdDataDir, "member", "wal"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, f := range list {
		if strings.HasSuffix(f.Name(), ".wal") {
			return true, nil
		}
	}
	return false, err
}

// unsealedPod is a manifest of etcd that is not sealed yet.
type unsealedPod struct {
	path   string
	sealed []byte
	mode   fs.FileMode
}

// unsealed returns the manifests that would start etcd without data. kubelet's own comes last: a copy
// would take its place after a power cut in between.
func (e Etcd) unsealed() ([]unsealedPod, error) {
	copies, err := filepath.Glob(e.Root + upgrade.PodsAt(etcdPod))
	if err != nil {
		return nil, err
	}
	var out []unsealedPod
	var errs []error
	for _, path := range append(copies, e.Root+deleted.KeptDir+etcdPod, e.Root+etcdPod) {
		p, err := unsealed(path)
		if err != nil {
			errs = append(errs, err)
		} else if p != nil {
			out = append(out, *p)
		}
	}
	return out, errors.Join(errs...)
}

// unsealed returns nil for a manifest that is sealed, or that is not there.
func unsealed(path string) (*unsealedPod, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	have, err := os.ReadFile(path)
	if err != nil || staticpod.Sealed(have) {
		return nil, err
	}
	sealed, err := staticpod.Seal(have)
	if err != nil {
		return nil, fmt.Errorf("%s would start etcd without data: %w", path, err)
	}
	return &unsealedPod{path: path, sealed: sealed, mode: info.Mode().Perm()}, nil
}

// seal writes the manifests anew if that is decided.
func (e Etcd) seal(facts deleted.Etcd) (string, error) {
	if !facts.Seals() {
		return "", nil
	}
	pods, err := e.unsealed()
	errs := []error{err}
	for _, p := range pods {
		errs = append(errs, host.WriteFileAtomic(p.path, p.sealed, p.mode))
	}
	if err := errors.Join(errs...); err != nil {
		return "", fmt.Errorf("have etcd start only with its data: %w", err)
	}
	return "from now on etcd of this host starts only with its data", nil
}

// seal adds the facts about etcd of one of three, and seals its manifests if that is decided.
func (k *Keeper) seal(in *deleted.Input) (string, error) {
	if !k.Kind.Three {
		return "", nil
	}
	e := Etcd{Root: k.Root, Runs: k.EtcdRuns}
	facts, err := e.look(false)
	switch {
	case !state.Is(facts.Log, false):
		delete(k.gone, state.EtcdDataDir)
	case k.gone[state.EtcdDataDir].IsZero():
		k.gone[state.EtcdDataDir] = in.Now
	default:
		facts.Gone = in.Now.Sub(k.gone[state.EtcdDataDir])
	}
	in.Etcd = &facts
	said, errSeal := e.seal(facts)
	return said, errors.Join(err, errSeal)
}
