package fence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// onlyPin is the content of a device's marker if the cluster lacks only the
// certificate that was seen for the first time. The account in the Secret may
// then be newer than the device's, and stays.
const onlyPin = "pin\n"

// IsPending reports whether the cluster does not yet have a target's account.
func (s Store) IsPending(target string) bool {
	said, err := os.ReadFile(s.pendingPath(target))
	return err == nil && string(said) != onlyPin
}

// pendingPath returns the path of a target's marker.
func (s Store) pendingPath(target string) string {
	return s.Files.Path(filepath.Join(state.FencingPendingDir, target))
}

// markPending records that the cluster lacks a whole device, markPinned that it
// lacks the pin only, and unmarkPending that it lacks nothing.
func (s Store) markPending(target string) error { return s.mark(target, "") }

func (s Store) markPinned(target string) error {
	if s.IsPending(target) {
		return nil // the pin follows together with the rest
	}
	return s.mark(target, onlyPin)
}

func (s Store) mark(target, what string) error {
	if err := host.WriteFileAtomic(s.pendingPath(target), []byte(what), 0o600); err != nil {
		return fmt.Errorf("mark the Secret of %s as pending: %w", target, err)
	}
	return nil
}

func (s Store) unmarkPending(target string) error {
	if err := host.RemoveFile(s.pendingPath(target)); err != nil {
		return fmt.Errorf("remove the mark of the pending Secret of %s: %w", target, err)
	}
	return nil
}

// Forget removes the device of a target that is no host of the cluster any more, and the mark
// that the cluster lacks it. There need not be one.
func (s Store) Forget(ctx context.Context, target string) error {
	if !records.IsNodeName(target) {
		return fmt.Errorf("fencing device of %q: not a valid node name", target)
	}
	release, err := s.lock(ctx, target)
	if err != nil {
		return err
	}
	defer release()
	if err := s.unmarkPending(target); err != nil {
		return err
	}
	if err := s.Files.RemoveDevice(target); err != nil {
		return fmt.Errorf("fencing device of %s: %w", target, err)
	}
	return nil
}

// Push writes each device that the cluster lacks into the cluster. It is safe
// to call at any time, and does nothing if nothing is pending.
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

// push holds the lock. Without it, a rotation between the reading and the
// writing would reach the cluster first and then be overwritten with the older
// device.
func (s Store) push(ctx context.Context, target string, cluster Secrets) error {
	release, err := s.lock(ctx, target)
	if err != nil {
		return err
	}
	defer release()
	dev, err := s.Files.Device(target)
	if err != nil {
		return err
	}
	return s.tell(ctx, dev, cluster)
}

// ListPending returns the targets whose devices the cluster lacks.
func (s Store) ListPending() ([]string, error) {
	entries, err := os.ReadDir(s.pendingPath(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list pending Secrets: %w", err)
	}
	var targets []string
	for _, e := range entries {
		if records.IsNodeName(e.Name()) {
			targets = append(targets, e.Name())
		}
	}
	return targets, nil
}

func (s Store) tell(ctx context.Context, dev state.FencingDevice, cluster Secrets) error {
	data := pinData(dev)
	if s.IsPending(dev.Target) {
		data = secretData(dev)
	}
	if len(data) > 0 {
		if err := cluster.PutSecret(ctx, SecretNamespace, SecretPrefix+dev.Target, data); err != nil {
			return err
		}
	}
	return s.unmarkPending(dev.Target)
}

func pinData(dev state.FencingDevice) map[string][]byte {
	if !dev.FirstSight || dev.Fingerprint == "" {
		return nil // an administrator named another pin meanwhile, and the cluster has it
	}
	return map[string][]byte{state.FencingFirstPinKey: []byte(dev.Fingerprint)}
}

// secretData returns the keys that the installer writes, and the optional ones.
// An optional key without a value is nil, so that the cluster removes the old
// value: otherwise a removed pin would come back with the next Job.
func secretData(dev state.FencingDevice) map[string][]byte {
	verification, tls := bmc.VerificationEnabled, ""
	if dev.Insecure {
		verification = bmc.VerificationDisabled
	}
	if dev.LegacyTLS {
		tls = bmc.TLSLegacy
	}
	named, first := dev.Fingerprint, ""
	if dev.FirstSight {
		named, first = "", dev.Fingerprint
	}
	data := map[string][]byte{
		"address": []byte(dev.Address), "username": []byte(dev.Username), "password": []byte(dev.Password),
		"certificateVerification": []byte(verification),
	}
	for key, value := range map[string]string{state.FencingPinKey: named, state.FencingFirstPinKey: first, "systemID": dev.SystemID, "tls": tls} {
		data[key] = nil
		if value != "" {
			data[key] = []byte(value)
		}
	}
	return data
}
