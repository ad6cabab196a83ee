package fence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Store writes devices where this host's fence agent reads them.
type Store struct {
	// Files are the host's, the devices and the markers of those among them that
	// the cluster does not know yet.
	Files records.Files
	// Sight has a device trust the certificate that its BMC shows, where nothing
	// says which one it has; nil for never.
	Sight func(context.Context, state.FencingDevice) (state.FencingDevice, error)
	// Test makes sure that a device could fence.
	Test func(context.Context, state.FencingDevice) Report
}

// NewStore returns the store of this host.
func NewStore() Store {
	return Store{Sight: Sight, Test: TestDevice}
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

// Write writes the devices that the cluster gives this host, each after its test:
// one that could not fence replaces nothing. What is known of a target already
// stays: its learned identity, a calibrated delay, an account that was rotated
// while the API was away and works. All devices are tried; the error names each
// that was not written.
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
	if !records.IsNodeName(dev.Target) {
		return Result{}, fmt.Errorf("fencing device of %q: that is no name of a node", dev.Target)
	}
	release, err := s.lock(ctx, dev.Target)
	if err != nil {
		return Result{}, err
	}
	defer release()
	old, err := s.Files.Device(dev.Target)
	if err == nil {
		dev = Merge(old, dev)
		if s.IsPending(dev.Target) {
			if old, r := s.test(ctx, old); r.Err() == nil {
				wrote, err := s.put(old)
				return Result{Report: r, Kept: true, Wrote: wrote}, err
			}
		}
	}
	return s.replace(ctx, dev)
}

// test tries a device with what was learned about its target. It returns the
// device as it was tried: with a certificate that was seen for the first time.
func (s Store) test(ctx context.Context, dev state.FencingDevice) (state.FencingDevice, Report) {
	if s.Sight != nil {
		seen, err := s.Sight(ctx, dev)
		if err != nil {
			r := Report{Target: dev.Target, Address: dev.Address, Identity: IdentityUnknown, Delay: dev.Delay, Certificate: CertificateUnpinned}
			r.refused(err)
			return dev, r
		}
		dev = seen
	}
	return dev, s.Test(ctx, withLearned(s.Files, dev))
}

// Read returns the device of a target as it was written, without what was
// learned.
func (s Store) Read(target string) (state.FencingDevice, error) {
	dev, err := s.Files.Device(target)
	if err != nil {
		return dev, err
	}
	return dev, CheckDevice(dev)
}

// replace tests a device and writes it as it was tried.
func (s Store) replace(ctx context.Context, dev state.FencingDevice) (r Result, err error) {
	dev, r.Report = s.test(ctx, dev)
	if err := r.Report.Err(); err != nil {
		return r, fmt.Errorf("the BMC of %s does not take this device, the one that was there before stays: %w", dev.Target, err)
	}
	r.Wrote, err = s.put(dev)
	return r, err
}

// put writes a device that was tried. That the cluster has to be told what was
// seen for the first time is remembered before: a host that is made anew would
// else trust at first sight once more.
func (s Store) put(dev state.FencingDevice) (wrote bool, err error) {
	if old, _ := s.Files.Device(dev.Target); dev.FirstSight && old.Fingerprint != dev.Fingerprint {
		if err := s.markPinned(dev.Target); err != nil {
			return false, err
		}
	}
	return s.Files.WriteDevice(dev)
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
	dev = keptPin(old, dev)
	dev.Delay = fencing.KeepDelay(old.Delay, dev.Delay)
	return dev
}

// SetDelay changes the delay of a target's device. It needs no test: nothing
// else changes.
func (s Store) SetDelay(target string, delay time.Duration) (wrote bool, err error) {
	if !records.IsNodeName(target) {
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
	return s.Files.WriteDevice(dev)
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
	if !records.IsNodeName(target) {
		return r, nil, fmt.Errorf("fencing device of %q: that is no name of a node", target)
	}
	release, err := s.lock(ctx, target)
	if err != nil {
		return r, nil, err
	}
	defer release()
	old, err := s.Files.Device(target)
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
	dev, r.Report = s.test(ctx, dev)
	if err := r.Report.Err(); err != nil {
		return r, nil, fmt.Errorf("the BMC of %s does not take the new device, nothing was changed: %w", dev.Target, err)
	}
	if err := s.markPending(dev.Target); err != nil {
		return r, nil, err
	}
	if r.Wrote, err = s.Files.WriteDevice(dev); err != nil {
		return r, nil, err
	}
	return r, s.tell(ctx, dev, cluster), nil
}
