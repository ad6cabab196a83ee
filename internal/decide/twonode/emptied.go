package twonode

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// Whole reports whether a configuration has everything that the set-up makes, so that a
// copy of it is worth keeping.
func (c Config) Whole() bool {
	devices := 0
	for _, r := range c.Resources {
		if strings.HasSuffix(r.Agent, ":"+FenceAgent) {
			devices++
		}
	}
	has := func(id string) bool {
		return slices.ContainsFunc(c.Resources, func(r Resource) bool { return r.ID == id && r.Clone != nil })
	}
	return has(Kubelet) && has(Etcd) && devices >= twoNodes && len(c.Constraints) > 0
}

// Emptied describes a configuration that lost all our parts at once, on two hosts that were
// set up. It is empty if one part is left: an administrator who removes one part meant that
// part.
func Emptied(have Config) []Difference {
	if have.SetUp() {
		return nil
	}
	return []Difference{{
		Words: "nothing of kubelet, etcd and the fence devices is left in Pacemaker's configuration: Pacemaker stops both and fences nobody", Ours: true,
	}}
}

// Restored returns the present CIB with the configuration of an earlier one. It keeps the
// status of the present one, by which Pacemaker decides.
func Restored(present, earlier []byte) ([]byte, error) {
	was, err := ParseCIB(earlier)
	if err != nil {
		return nil, err
	}
	if !was.Whole() {
		return nil, errors.New("the copy of Pacemaker's configuration is not whole")
	}
	from, to, ok := configuration(earlier)
	if !ok {
		return nil, errors.New("the copy of Pacemaker's configuration has none")
	}
	begin, end, ok := configuration(present)
	if !ok {
		return nil, errors.New("the CIB has no configuration to replace")
	}
	return slices.Concat(present[:begin], earlier[from:to], present[end:]), nil
}

// configuration finds the element configuration, which a CIB has once.
func configuration(cib []byte) (begin, end int, ok bool) {
	const whole, empty = "</configuration>", "<configuration/>"
	if begin = bytes.Index(cib, []byte(empty)); begin >= 0 {
		return begin, begin + len(empty), true
	}
	begin = bytes.Index(cib, []byte("<configuration>"))
	end = bytes.LastIndex(cib, []byte(whole))
	return begin, end + len(whole), begin >= 0 && end > begin
}
