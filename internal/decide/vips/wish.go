package vips

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNothingToDo reports that the cluster already has what was requested.
var ErrNothingToDo = errors.New("nothing to do")

// WithPair returns the spec with a second pair of VIPs. It does not judge the pair:
// Decide does. The error is ErrNothingToDo where the cluster has the pair, or says
// why this command cannot add it.
func (s Snapshot) WithPair(api, ingress string) (Values, error) {
	if err := s.changeable(); err != nil {
		return Values{}, err
	}
	out := s.filledNow()
	if len(out.API) > 1 && len(out.Ingress) > 1 && same(out.API[1:2], []string{api}) && same(out.Ingress[1:2], []string{ingress}) {
		return out, ErrNothingToDo
	}
	if len(out.API) == 0 || len(out.Ingress) == 0 {
		return out, errors.New("the cluster has no first pair of virtual IPs to add a second one to")
	}
	if len(s.Status.API) > 1 || len(s.Status.Ingress) > 1 {
		return out, fmt.Errorf("the cluster already has a second pair, API %s and ingress %s: remove it first (holdfast vip remove)",
			orDash(s.Status.API), orDash(s.Status.Ingress))
	}
	out.API, out.Ingress = append(out.API[:1:1], api), append(out.Ingress[:1:1], ingress)
	return out, nil
}

// WithoutPair returns the spec without the second pair of VIPs.
func (s Snapshot) WithoutPair() (Values, error) {
	if err := s.changeable(); err != nil {
		return Values{}, err
	}
	out := s.filledNow()
	if len(out.API) < 2 && len(out.Ingress) < 2 {
		return out, ErrNothingToDo
	}
	out.API, out.Ingress = out.API[:min(1, len(out.API))], out.Ingress[:min(1, len(out.Ingress))]
	return out, nil
}

// filledNow returns the spec as the operator will fill it.
func (s Snapshot) filledNow() Values {
	s.Status = s.upgraded()
	out := s.filled()
	return Values{slices.Clone(out.API), slices.Clone(out.Ingress), slices.Clone(out.MachineNetworks)}
}

func (s Snapshot) changeable() error {
	switch {
	case s.Platform == VSphere, s.Platform == OpenStack:
		return fmt.Errorf("virtual IPs of platform %s are not managed by Holdfast: change them at its load balancer", s.Platform)
	case s.Platform != BareMetal:
		return fmt.Errorf("platform %s has no virtual IPs that hosts hold", orNone(s.Platform))
	case !s.HasStatus:
		return errors.New("the cluster's status has no platform yet: wait until its installation is complete")
	}
	return nil
}

func orDash(list []string) string {
	if len(list) < 2 {
		return "-"
	}
	return strings.Join(list[1:], ", ")
}
