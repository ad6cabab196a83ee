package bmc

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"time"
)

const (
	manufacturer = "Holdfast"
	model        = "Lab Machine"
)

// identity is the identity that a system shows.
type identity struct {
	name, uuid, serial string
}

// identity returns the identity of our system, as the quirks let it show.
func (s *Server) identity() identity {
	id := identity{name: s.cfg.Name, uuid: s.cfg.UUID, serial: s.cfg.Serial}
	if s.Quirks().OtherIdentity {
		return id.other("other")
	}
	return id
}

// other derives the identity of another machine. The same name always gives the
// same identity.
func (i identity) other(name string) identity {
	sum := sha256.Sum256([]byte(i.uuid + " " + name))
	uuid := fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	return identity{name: name, uuid: uuid, serial: strings.ToUpper(fmt.Sprintf("%x", sum[16:21]))}
}

func (q Quirks) sessionTimeout() time.Duration {
	if q.SessionTimeout > 0 {
		return time.Duration(q.SessionTimeout)
	}
	return defaultSessionTimeout
}

// systemIDs lists the systems, with ours in the middle: it is the last one only
// if it is alone.
func (s *Server) systemIDs() []string {
	extra := s.Quirks().ExtraSystems
	ids := make([]string, 0, extra+1)
	for n := range extra {
		if n == extra/2 {
			ids = append(ids, s.cfg.SystemID)
		}
		ids = append(ids, fmt.Sprintf("neighbour-%d", n+1))
	}
	if extra == 0 {
		ids = append(ids, s.cfg.SystemID)
	}
	return ids
}

func link(path string) object { return object{"@odata.id": path} }

// resourceOf returns a resource with the properties that all have, and more.
func resourceOf(path, kind, id, name string, more object) object {
	body := object{"@odata.id": path, "@odata.type": "#" + kind, "Id": id, "Name": name}
	maps.Copy(body, more)
	return body
}

func collection(path, kind string, ids []string) object {
	members := make([]object, 0, len(ids))
	for _, id := range ids {
		members = append(members, link(path+"/"+id))
	}
	return object{
		"@odata.id":           path,
		"@odata.type":         fmt.Sprintf("#%[1]sCollection.%[1]sCollection", kind),
		"Name":                kind + " Collection",
		"Members":             members,
		"Members@odata.count": len(members),
	}
}

func versions() object { return object{"v1": rootPath + "/"} }

func odata() object {
	return object{"@odata.context": rootPath + "/$metadata", "value": []object{
		{"name": "Service", "kind": "Singleton", "url": rootPath + "/"},
		{"name": "Systems", "kind": "Singleton", "url": systemsPath},
	}}
}

func serviceRoot(id identity) object {
	return resourceOf(rootPath, "ServiceRoot.v1_16_1.ServiceRoot", "RootService", "Root Service", object{
		"RedfishVersion": "1.18.0",
		"UUID":           id.other("controller").uuid,
		"Vendor":         manufacturer,
		"Systems":        link(systemsPath),
		"Chassis":        link(chassisPath),
		"Managers":       link(managersPath),
		"SessionService": link(servicePath),
		"Links":          object{"Sessions": link(sessionsPath)},
	})
}

func system(id identity, path string, q Quirks, state State) object {
	body := systemBody(id, path, !q.ActionInfoOnly)
	if value, ok := q.shown(state); ok {
		body["PowerState"] = value
	}
	return body
}

func systemBody(id identity, path string, allowable bool) object {
	action := object{"target": path + resetAction, "@Redfish.ActionInfo": path + resetInfo}
	if allowable {
		action["ResetType@Redfish.AllowableValues"] = ResetTypes()
	}
	return resourceOf(path, "ComputerSystem.v1_20_0.ComputerSystem", path[strings.LastIndex(path, "/")+1:], "System of "+id.name, object{
		"SystemType":   "Physical",
		"HostName":     id.name,
		"Manufacturer": manufacturer,
		"Model":        model,
		"SerialNumber": id.serial,
		"UUID":         id.uuid,
		"Status":       object{"State": "Enabled", "Health": "OK"},
		"Boot": object{
			"BootSourceOverrideEnabled": "Disabled",
			"BootSourceOverrideTarget":  "None",
			"BootSourceOverrideMode":    "UEFI",
		},
		"Actions": object{"#ComputerSystem.Reset": action},
		"Links": object{
			"Chassis":   []object{link(chassisPath + "/1")},
			"ManagedBy": []object{link(managerPath)},
		},
	})
}

func actionInfo(systemPath string) object {
	return resourceOf(systemPath+resetInfo, "ActionInfo.v1_4_2.ActionInfo", "ResetActionInfo", "Reset Action Info", object{
		"Parameters": []object{{
			"Name": "ResetType", "Required": true, "DataType": "String", "AllowableValues": ResetTypes(),
		}},
	})
}

// neighbour returns the system of another machine.
func (s *Server) neighbour(id string) object {
	other := identity{uuid: s.cfg.UUID}.other(id)
	body := systemBody(other, systemsPath+"/"+id, !s.Quirks().ActionInfoOnly)
	body["PowerState"] = s.neighbourState(id).Shown()
	return body
}

// neighbourState returns the state of another machine, which is on until
// somebody switches it.
func (s *Server) neighbourState(id string) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on, ok := s.neighbours[id]; ok && !on {
		return State{Phase: PhaseOff}
	}
	return State{Phase: PhaseRunning}
}

func chassis(id identity, systemPath string) object {
	return resourceOf(chassisPath+"/1", "Chassis.v1_25_0.Chassis", "1", "Chassis of "+id.name, object{
		"ChassisType":  "RackMount",
		"Manufacturer": manufacturer,
		"Model":        model,
		"SerialNumber": id.serial,
		"Status":       object{"State": "Enabled", "Health": "OK"},
		"Links": object{
			"ComputerSystems": []object{link(systemPath)},
			"ManagedBy":       []object{link(managerPath)},
		},
	})
}

func manager(systemPath string, medium bool) object {
	body := resourceOf(managerPath, "Manager.v1_19_1.Manager", "BMC", "Management Controller", object{
		"ManagerType":        "BMC",
		"FirmwareVersion":    "1.0.0",
		"Manufacturer":       manufacturer,
		"Status":             object{"State": "Enabled", "Health": "OK"},
		"EthernetInterfaces": link(nicsPath),
		"Links": object{
			"ManagerForServers": []object{link(systemPath)},
			"ManagerForChassis": []object{link(chassisPath + "/1")},
		},
	})
	if medium {
		body["VirtualMedia"] = link(mediaPath)
	}
	return body
}

// media returns the list of virtual media, or the one in it.
func media(path string) object {
	if path == mediaPath {
		return collection(mediaPath, "VirtualMedia", []string{"CD"})
	}
	return resourceOf(path, "VirtualMedia.v1_6_3.VirtualMedia", "CD", "Virtual CD", object{
		"Inserted": true, "ConnectedVia": "URI", "Image": "http://images.example.test/installer.iso", "MediaTypes": []string{"CD", "DVD"},
	})
}

func managerNIC(name string) object {
	return resourceOf(nicsPath+"/eth0", "EthernetInterface.v1_12_1.EthernetInterface", "eth0", "Management Network Interface", object{
		"InterfaceEnabled": true,
		"LinkStatus":       "LinkUp",
		"HostName":         name + "-bmc",
	})
}

func sessionService(timeout time.Duration) object {
	return resourceOf(servicePath, "SessionService.v1_1_9.SessionService", "SessionService", "Session Service", object{
		"ServiceEnabled": true,
		"SessionTimeout": int(timeout.Seconds()),
		"Sessions":       link(sessionsPath),
	})
}

func sessionBody(id, user string) object {
	return resourceOf(sessionsPath+"/"+id, "Session.v1_7_1.Session", id, "User Session", object{
		"UserName": user, "Password": nil,
	})
}
