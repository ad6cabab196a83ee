package pacemaker

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/host"
)

// switchesTimeout bounds the question; it takes 50 ms where Pacemaker answers.
const switchesTimeout = 5 * time.Second

// switches are what a person turns to keep Pacemaker's hands off, as crm_mon
// tells them. A cluster that tells nothing of fencing is not understood.
type switches struct {
	Summary struct {
		Options []struct {
			Stonith     *bool `xml:"stonith-enabled,attr"`
			Fencing     *bool `xml:"fencing-enabled,attr"` // the name of later versions
			Maintenance bool  `xml:"maintenance-mode,attr"`
		} `xml:"cluster_options"`
	} `xml:"summary"`
	Nodes []struct {
		Name        string `xml:"name,attr"`
		Maintenance bool   `xml:"maintenance,attr"`
	} `xml:"nodes>node"`
	Alone  []switched      `xml:"resources>resource"`
	Clones []switchedClone `xml:"resources>clone"`
}

type switched struct {
	ID          string `xml:"id,attr"`
	Managed     bool   `xml:"managed,attr"`
	Blocked     bool   `xml:"blocked,attr"`
	Maintenance bool   `xml:"maintenance,attr"` // told by version 2.1.6 and later
}

type switchedClone struct {
	Maintenance bool       `xml:"maintenance,attr"`
	Instances   []switched `xml:"resource"`
}

// MayFence returns an error where a person has told Pacemaker not to act, on
// whose word a fence of its own would not come either: stonith_admin heeds none
// of it. resource is the one for whose sake the fence is wanted. Where Pacemaker
// does not say, it is an error too.
func MayFence(ctx context.Context, resource string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, switchesTimeout, fmt.Errorf("no answer in %s", switchesTimeout))
	defer cancel()
	out, err := host.Run(ctx, host.Command("crm_mon", "--one-shot", "--inactive", "--output-as=xml"))
	if err != nil {
		return fmt.Errorf("ask whether Pacemaker is in maintenance: %w", err)
	}
	return mayFence(out, resource)
}

func mayFence(text []byte, resource string) error {
	var s switches
	if err := xml.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("ask whether Pacemaker is in maintenance: read the output of crm_mon: %w", err)
	}
	if len(s.Summary.Options) != 1 {
		return errors.New("ask whether Pacemaker is in maintenance: crm_mon does not say how the cluster is set")
	}
	o := s.Summary.Options[0]
	enabled := o.Stonith
	if enabled == nil {
		enabled = o.Fencing
	}
	switch {
	case enabled == nil:
		return errors.New("ask whether Pacemaker may fence: crm_mon does not say whether fencing is enabled")
	case !*enabled:
		return errors.New("stonith-enabled is false, so nobody is fenced (pcs property set stonith-enabled=true)")
	case o.Maintenance:
		return errors.New("the cluster is in maintenance mode, so nobody is fenced (pcs property set maintenance-mode=false)")
	}
	for _, n := range s.Nodes {
		if n.Maintenance {
			return fmt.Errorf("%s is in maintenance, so nobody is fenced (pcs node unmaintenance %s)", n.Name, n.Name)
		}
	}
	return s.handsOff(resource)
}

// handsOff returns an error where a person told Pacemaker not to manage the
// resource. One that Pacemaker itself gave up on is blocked.
func (s switches) handsOff(resource string) error {
	all := slices.Clone(s.Alone)
	for _, c := range s.Clones {
		for _, r := range c.Instances {
			r.Maintenance = r.Maintenance || c.Maintenance
			all = append(all, r)
		}
	}
	for _, r := range all {
		if r.ID == resource && (r.Maintenance || !r.Managed && !r.Blocked) {
			return fmt.Errorf("a person told Pacemaker not to manage %s, so nobody is fenced for it (pcs resource manage %s)", resource, resource)
		}
	}
	return nil
}
