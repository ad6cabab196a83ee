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
	// Files are the files of the host: the devices, and the markers of the devices
	// that the cluster lacks.
	Files records.Files
	// Sight adds the certificate that the BMC shows to a device without a trusted
	// one. If Sight is nil, that never happens.
	Sight func(context.Context, state.FencingDevice) (state.FencingDevice, error)
	// Test checks that a device could fence.
	Test func(context.Context, state.FencingDevice) Report
}

// NewStore returns the store of this host.
func NewStore() Store {
	return Store{Sight: Sight, Test: TestDevice}
}

// Result is the outcome for one device.
type Result struct {
	Report Report `json:"report"`
	// Wrote is true if the file has changed.
	Wrote bool `json:"wrote"`
	// Kept is true if the existing device stays, because it is newer than the
	// cluster's.
	Kept bool `json:"kept,omitempty"`
}

// Write tests and writes the devices that the cluster gives this host. A device
// that could not fence replaces nothing. Known facts about a target stay: its
// learned identity, a calibrated delay, and a working account that was rotated
// while the API was away. Write tries all devices; the error names each that was
// not written.
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
		return Result{}, fmt.Errorf("fencing device of %q: not a valid node name", dev.Target)
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

// test tests a device with the learned identity of its target. It returns the
// device as tested, with the certificate that was seen for the first time.
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

// Read returns the device of a target as it was written, without learned data.
func (s Store) Read(target string) (state.FencingDevice, error) {
	dev, err := s.Files.Device(target)
	if err != nil {
		return dev, err
	}
	return dev, CheckDevice(dev)
}

// replace tests a device and writes it as tested.
func (s Store) replace(ctx context.Context, dev state.FencingDevice) (r Result, err error) {
	dev, r.Report = s.test(ctx, dev)
	if err := r.Report.Err(); err != nil {
		return r, fmt.Errorf("the BMC of %s rejected this device; the previous device was kept: %w", dev.Target, err)
	}
	r.Wrote, err = s.put(dev)
	return r, err
}

// put writes a tested device. Before that it marks a certificate seen for the
// first time, which the cluster lacks: otherwise a host that is installed anew
// would trust at first sight once more.
func (s Store) put(dev state.FencingDevice) (wrote bool, err error) {
	if old, _ := s.Files.Device(dev.Target); dev.FirstSight && old.Fingerprint != dev.Fingerprint {
		if err := s.markPinned(dev.Target); err != nil {
			return false, err
		}
	}
	return s.Files.WriteDevice(dev)
}

// Merge keeps learned facts about a target that dev does not bring. An
// administrator's SystemID stays too: the cluster brings the SMBIOS identity
// with each change, and has the SystemID only once its Secret is updated.
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

// SetDelay changes the delay of a target's device. It needs no test, because
// nothing else changes.
func (s Store) SetDelay(target string, delay time.Duration) (wrote bool, err error) {
	if !records.IsNodeName(target) {
		return false, fmt.Errorf("fencing device of %q: not a valid node name", target)
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

// Secrets writes the Secrets of the cluster that hold the devices.
type Secrets interface {
	// PutSecret merges keys into a Secret, which it creates if need be. A key with
	// a nil value is removed.
	PutSecret(ctx context.Context, namespace, name string, data map[string][]byte) error
}

// The place of the accounts in the cluster.
const (
	SecretNamespace = "openshift-etcd"
	SecretPrefix    = "fencing-credentials-"
)

// Rotate replaces a target's device and updates the cluster. Its order is safe
// for a crash at any point: first the marker, because the account in the Secret
// must never replace one that the BMC accepts; then the device; then the
// Secret. told is the error of the update of the cluster. It is no failure:
// Push updates the cluster later.
func (s Store) Rotate(ctx context.Context, dev state.FencingDevice, cluster Secrets) (r Result, told, err error) {
	return s.Change(ctx, dev.Target, func(state.FencingDevice) (state.FencingDevice, error) { return dev, nil }, cluster)
}

// Change works like Rotate with a device that the function makes from the
// existing one, which is empty if there is none. Nobody else changes the device
// in between.
func (s Store) Change(ctx context.Context, target string, change func(state.FencingDevice) (state.FencingDevice, error), cluster Secrets) (r Result, told, err error) {
	if !records.IsNodeName(target) {
		return r, nil, fmt.Errorf("fencing device of %q: not a valid node name", target)
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
		return r, nil, fmt.Errorf("the BMC of %s rejected the new device; nothing was changed: %w", dev.Target, err)
	}
	if err := s.markPending(dev.Target); err != nil {
		return r, nil, err
	}
	if r.Wrote, err = s.Files.WriteDevice(dev); err != nil {
		return r, nil, err
	}
	return r, s.tell(ctx, dev, cluster), nil
}
