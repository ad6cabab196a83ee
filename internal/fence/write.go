package fence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/config"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/state"
)

// PendingDir holds an empty file for each target whose device is newer than
// the Secret of the cluster: the API was away when it was rotated.
const PendingDir = "/var/lib/holdfast/fencing/pending"

// Store writes devices where this host's fence agent reads them.
type Store struct {
	// Dir holds the devices, Pending the markers of those that the cluster
	// does not know yet.
	Dir, Pending string
	// Test makes sure that a device could fence.
	Test func(context.Context, state.FencingDevice) Report
}

// NewStore returns the store of this host.
func NewStore() Store {
	return Store{Dir: state.FencingDir, Pending: PendingDir, Test: TestDevice}
}

// Result is what became of one device.
type Result struct {
	Report Report `json:"report"`
	// Wrote is true where the file is another one now.
	Wrote bool `json:"wrote"`
	// Kept is true where the device that was there stays, because it is newer
	// than what the cluster has.
	Kept bool `json:"kept,omitempty"`
}

// WriteDevices writes the devices that the cluster gives this host, each after
// its test: one that could not fence replaces nothing. What is known of a
// target already stays: its learned identity, a calibrated delay, an account
// that was rotated while the API was away and works. All devices are tried;
// the error names each that was not written.
func WriteDevices(ctx context.Context, dir string, devices []state.FencingDevice) ([]Result, error) {
	s := NewStore()
	s.Dir = dir
	return s.Write(ctx, devices)
}

// Write is WriteDevices for any store.
func (s Store) Write(ctx context.Context, devices []state.FencingDevice) ([]Result, error) {
	var results []Result
	var errs []error
	for _, dev := range devices {
		r, err := s.write(ctx, dev)
		results, errs = append(results, r), append(errs, err)
	}
	return results, errors.Join(errs...)
}

func (s Store) write(ctx context.Context, dev state.FencingDevice) (Result, error) {
	if !nodeName.MatchString(dev.Target) {
		return Result{}, fmt.Errorf("fencing device of %q: that is no name of a node", dev.Target)
	}
	release, err := s.lock(ctx, dev.Target)
	if err != nil {
		return Result{}, err
	}
	defer release()
	old, err := readFile(s.Dir, dev.Target)
	if err == nil {
		dev = Merge(old, dev)
		if s.IsPending(dev.Target) {
			if r := s.test(ctx, old); r.Err() == nil {
				return Result{Report: r, Kept: true}, nil
			}
		}
	}
	return s.replace(ctx, dev)
}

// test tries a device with what was learned about its target.
func (s Store) test(ctx context.Context, dev state.FencingDevice) Report {
	return s.Test(ctx, withLearned(s.Dir, dev))
}

// Read returns the device of a target as it was written, without what was
// learned.
func (s Store) Read(target string) (state.FencingDevice, error) {
	dev, err := readFile(s.Dir, target)
	if err != nil {
		return dev, err
	}
	return dev, CheckDevice(dev)
}

// replace tests a device and writes it as it is.
func (s Store) replace(ctx context.Context, dev state.FencingDevice) (Result, error) {
	r := Result{Report: s.test(ctx, dev)}
	if err := r.Report.Err(); err != nil {
		return r, fmt.Errorf("the BMC of %s does not take this device, the one that was there before stays: %w", dev.Target, err)
	}
	wrote, err := writeDevice(s.Dir, dev)
	r.Wrote = wrote
	return r, err
}

// Merge keeps what was learned about a target and is not told anew. What a
// person said that the BMC reports stays: the cluster brings what SMBIOS says
// with each change, and knows of the person's word only once its Secret follows.
func Merge(old, dev state.FencingDevice) state.FencingDevice {
	if old.Target != dev.Target {
		return dev
	}
	if dev.UUID == "" && dev.Serial == "" {
		dev.UUID, dev.Serial = old.UUID, old.Serial
	}
	dev.SystemID = cmp.Or(dev.SystemID, old.SystemID)
	dev.Delay = fencing.KeepDelay(old.Delay, dev.Delay)
	return dev
}

// SetDelay changes the delay of a target's device. It needs no test: nothing
// else changes.
func (s Store) SetDelay(target string, delay time.Duration) (wrote bool, err error) {
	if !nodeName.MatchString(target) {
		return false, fmt.Errorf("fencing device of %q: that is no name of a node", target)
	}
	release, err := s.lock(context.Background(), target)
	if err != nil {
		return false, err
	}
	defer release()
	dev, err := s.Read(target)
	if err != nil {
		return false, err
	}
	dev.Delay = delay
	return writeDevice(s.Dir, dev)
}

// IsPending reports whether the cluster still has to be told a target's
// device.
func (s Store) IsPending(target string) bool {
	_, err := os.Stat(filepath.Join(s.Pending, target))
	return err == nil
}

// markPending remembers that the cluster has to be told, unmarkPending that it
// was.
func (s Store) markPending(target string) error {
	if err := host.WriteFileAtomic(filepath.Join(s.Pending, target), nil, 0o600); err != nil {
		return fmt.Errorf("remember that the Secret of %s is to follow: %w", target, err)
	}
	return nil
}

func (s Store) unmarkPending(target string) error {
	if err := os.Remove(filepath.Join(s.Pending, target)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget that the Secret of %s was to follow: %w", target, err)
	}
	return nil
}

// Secrets is the part of the cluster that devices are kept in.
type Secrets interface {
	// PutSecret merges keys into a Secret, which it creates if need be. A key
	// whose value is nil is taken away.
	PutSecret(ctx context.Context, namespace, name string, data map[string][]byte) error
}

// Place of the accounts in the cluster.
const (
	SecretNamespace = "openshift-etcd"
	SecretPrefix    = "fencing-credentials-"
)

// Rotate replaces a target's device and tells the cluster. The order is chosen
// for a crash at any point: the marker first, since an account that the BMC
// takes must never be replaced by the one in the Secret; then the device;
// then the Secret. told is why the cluster could not be told, which is no
// failure: Push does it later.
func (s Store) Rotate(ctx context.Context, dev state.FencingDevice, cluster Secrets) (r Result, told, err error) {
	return s.Change(ctx, dev.Target, func(state.FencingDevice) (state.FencingDevice, error) { return dev, nil }, cluster)
}

// Change is Rotate for a device that is made from the one that is there, empty
// where none is: nobody else changes it in between.
func (s Store) Change(ctx context.Context, target string, change func(state.FencingDevice) (state.FencingDevice, error), cluster Secrets) (r Result, told, err error) {
	if !nodeName.MatchString(target) {
		return r, nil, fmt.Errorf("fencing device of %q: that is no name of a node", target)
	}
	release, err := s.lock(ctx, target)
	if err != nil {
		return r, nil, err
	}
	defer release()
	old, err := readFile(s.Dir, target)
	if err != nil {
		old = state.FencingDevice{}
	}
	dev, err := change(old)
	if err != nil {
		return r, nil, err
	}
	return s.rotate(ctx, dev, cluster)
}

func (s Store) rotate(ctx context.Context, dev state.FencingDevice, cluster Secrets) (r Result, told, err error) {
	r.Report = s.test(ctx, dev)
	if err := r.Report.Err(); err != nil {
		return r, nil, fmt.Errorf("the BMC of %s does not take the new device, nothing was changed: %w", dev.Target, err)
	}
	if err := s.markPending(dev.Target); err != nil {
		return r, nil, err
	}
	if r.Wrote, err = writeDevice(s.Dir, dev); err != nil {
		return r, nil, err
	}
	return r, s.tell(ctx, dev, cluster), nil
}

// Push tells the cluster of each device that it does not know yet. It is safe
// to call at any time, and does nothing where nothing is pending.
func (s Store) Push(ctx context.Context, cluster Secrets) (pushed []string, err error) {
	pending, err := s.ListPending()
	errs := []error{err}
	for _, target := range pending {
		err := s.push(ctx, target, cluster)
		if err == nil {
			pushed = append(pushed, target)
		}
		errs = append(errs, err)
	}
	return pushed, errors.Join(errs...)
}

// push holds the lock: a rotation between the reading and the telling would be
// told first, and then be taken back.
func (s Store) push(ctx context.Context, target string, cluster Secrets) error {
	release, err := s.lock(ctx, target)
	if err != nil {
		return err
	}
	defer release()
	dev, err := readFile(s.Dir, target)
	if err != nil {
		return err
	}
	return s.tell(ctx, dev, cluster)
}

// ListPending names the targets whose devices the cluster does not know yet.
func (s Store) ListPending() ([]string, error) {
	entries, err := os.ReadDir(s.Pending)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list Secrets that are to follow: %w", err)
	}
	var targets []string
	for _, e := range entries {
		if nodeName.MatchString(e.Name()) {
			targets = append(targets, e.Name())
		}
	}
	return targets, nil
}

func (s Store) tell(ctx context.Context, dev state.FencingDevice, cluster Secrets) error {
	if err := cluster.PutSecret(ctx, SecretNamespace, SecretPrefix+dev.Target, secretData(dev)); err != nil {
		return err
	}
	return s.unmarkPending(dev.Target)
}

// secretData are the keys that the installer writes, and those that may be
// left out. One that is left out is nil, so that the cluster forgets what was
// there: a pin that was taken away would come back with the next Job.
func secretData(dev state.FencingDevice) map[string][]byte {
	verification, tls := "Enabled", ""
	if dev.Insecure {
		verification = "Disabled"
	}
	if dev.LegacyTLS {
		tls = config.TLSLegacy
	}
	data := map[string][]byte{
		"address": []byte(dev.Address), "username": []byte(dev.Username), "password": []byte(dev.Password),
		"certificateVerification": []byte(verification),
	}
	for key, value := range map[string]string{"fingerprint": dev.Fingerprint, "systemID": dev.SystemID, "tls": tls} {
		data[key] = nil
		if value != "" {
			data[key] = []byte(value)
		}
	}
	return data
}
