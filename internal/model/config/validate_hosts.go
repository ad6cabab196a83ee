package config

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// bareMetalHosts checks the list of machines, which may be left out: the
// installer does not provision them.
func (v *validator) bareMetalHosts(list *field.Path) {
	hosts := v.c.Platform.BareMetal.Hosts
	if len(hosts) == 0 {
		return
	}
	v.hostCount(list)
	var names []namedAt
	var bmcs []bmcAt
	macs := map[string]*field.Path{}
	for i, h := range hosts {
		path := list.Index(i)
		if h.Name == "" {
			v.add(field.Required(path.Child("name"), "missing name"))
		} else {
			names = append(names, namedAt{h.Name, path.Child("name")})
		}
		if h.Role != "" && !slices.Contains(hostRoles, h.Role) {
			v.add(field.NotSupported(path.Child("role"), h.Role, hostRoles))
		}
		v.mac(path.Child("bootMACAddress"), h.BootMACAddress, macs)
		if h.BMC == (BMC{}) {
			continue // no host is installed through it
		}
		bmc := path.Child("bmc")
		bmcs = v.appendBMC(bmcs, bmc.Child("address"), h.BMC.Address)
		v.username(bmc.Child("username"), h.BMC.Username)
		v.password(bmc.Child("password"), h.BMC.Password)
	}
	v.hostNames(names)
	v.distinctBMCs(bmcs)
}

func (v *validator) mac(path *field.Path, text string, seen map[string]*field.Path) {
	mac, ok := canonicalMAC(text)
	switch first := seen[mac]; {
	case text == "":
		v.add(field.Required(path, "missing bootMACAddress"))
	case !ok:
		v.add(field.Invalid(path, text, "must be the MAC address of one NIC, for example 52:54:00:12:34:56"))
	case first != nil:
		v.add(duplicate(path, text, first))
	default:
		seen[mac] = path
	}
}

// hostCount demands a machine for every replica, with or without a role given.
func (v *validator) hostCount(list *field.Path) {
	total, known := v.hosts()
	if !known || !v.readable(list.String()) {
		return
	}
	masters, workers := v.c.ControlPlaneReplicas(), v.c.ComputeReplicas()
	roles := map[string]int{}
	for _, h := range v.c.Platform.BareMetal.Hosts {
		if !slices.Contains(hostRoles, h.Role) {
			h.Role = "" // reported as its own mistake
		}
		roles[h.Role]++
	}
	n := len(v.c.Platform.BareMetal.Hosts)
	switch {
	case n < total:
		v.add(field.Invalid(list, n, fmt.Sprintf("too few: the pools ask for %s", count(total, "host"))))
	case roles[ControlPlanePool]+roles[""] < masters:
		v.add(field.Invalid(list, n, fmt.Sprintf("too few with role master or none: controlPlane.replicas is %d", masters)))
	case roles[ComputePool]+roles[""] < workers:
		v.add(field.Invalid(list, n, fmt.Sprintf("too few with role worker or none: the compute replicas are %d", workers)))
	}
}
