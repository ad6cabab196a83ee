package lab

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// machineSettings are kernel settings without a namespace that the software of
// a host changes for the whole machine: kubelet the first three, init systems
// and proxies the rest. The lab puts them back when the last lab goes.
var machineSettings = []string{
	"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops",
	"kernel/pid_max", "kernel/printk", "kernel/core_pattern", "kernel/sysrq",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "kernel/keys/maxkeys", "kernel/keys/maxbytes",
	"fs/protected_symlinks", "fs/protected_hardlinks", "fs/protected_regular", "fs/protected_fifos",
	"fs/inotify/max_user_instances", "fs/inotify/max_user_watches", "fs/file-max", "fs/nr_open",
	"net/netfilter/nf_conntrack_max", "vm/max_map_count", "vm/swappiness", "net/core/wmem_default",
}

// machineNeeds are settings of that kind that a host's own files request but
// the kernel refuses to a host of the lab.
var machineNeeds = map[string]string{"net/core/wmem_default": "4194304"}

// machineFile stores the machine's own settings while any lab exists.
const machineFile = ".machine.json"

// rememberMachine records the machine's settings unless an earlier lab did, and
// applies machineNeeds, which the hosts cannot set themselves.
func rememberMachine(root string) error {
	path := filepath.Join(root, machineFile)
	if exists(path) {
		return nil
	}
	values := map[string]string{}
	for _, key := range machineSettings {
		if data, err := os.ReadFile(filepath.Join("/proc/sys", key)); err == nil {
			values[key] = strings.TrimSpace(string(data))
		}
	}
	if err := writeJSON(path, values); err != nil {
		return err
	}
	for key, want := range machineNeeds {
		if err := os.WriteFile(filepath.Join("/proc/sys", key), []byte(want), 0); err != nil {
			return err
		}
	}
	return nil
}

// restoreMachine puts the machine's settings back, once no lab is left.
func restoreMachine(root string) error {
	if names, err := List(root); err != nil || len(names) > 0 {
		return err
	}
	path := filepath.Join(root, machineFile)
	var values map[string]string
	if err := readJSON(path, &values); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	var errs []error
	for key, want := range values {
		file := filepath.Join("/proc/sys", key)
		if now, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(now)) == want {
			continue
		}
		errs = append(errs, os.WriteFile(file, []byte(want), 0))
	}
	return errors.Join(append(errs, os.Remove(path))...)
}
