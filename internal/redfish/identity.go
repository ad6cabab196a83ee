package redfish

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// meant reports an error unless a system is the one that the endpoint means.
// The UUID decides where both sides tell one, else the serial number: serial
// numbers of one machine may differ, since iDRAC reports that of the board
// where SMBIOS has the service tag, and nodes of one chassis may share one. A
// system that reports nothing to compare cannot be told from another one.
func (e Endpoint) meant(uuid, serial string) error {
	switch {
	case e.UUID == "" && e.Serial == "":
		return nil
	case e.UUID != "" && uuid != "":
		if !sameUUID(e.UUID, uuid) {
			return problem{WrongServer, fmt.Sprintf("it reports UUID %s where %s is expected", uuid, e.UUID)}
		}
	case e.Serial != "" && serial != "":
		if !strings.EqualFold(strings.TrimSpace(e.Serial), strings.TrimSpace(serial)) {
			return problem{WrongServer, fmt.Sprintf("it reports serial number %s where %s is expected", serial, e.Serial)}
		}
	default:
		return problem{WrongServer, "it does not report what " + e.identity() + " could be compared with"}
	}
	return nil
}

// SameMachine returns an error unless UUID and serial number that a machine
// tells of itself are those that a controller reports. What one of them does
// not tell is not compared.
func SameMachine(uuid, serial, reportedUUID, reportedSerial string) error {
	return Endpoint{UUID: uuid, Serial: serial}.meant(reportedUUID, reportedSerial)
}

func (e Endpoint) identity() string {
	switch {
	case e.Serial == "":
		return "UUID " + e.UUID
	case e.UUID == "":
		return "serial number " + e.Serial
	}
	return "UUID " + e.UUID + " and serial number " + e.Serial
}

// sameUUID compares without regard to case, and to the order of bytes in the
// first three fields, in which SMBIOS and controllers are known to differ
// (DSP0134, 7.2.1).
func sameUUID(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	x, okX := uuidBytes(a)
	y, okY := uuidBytes(b)
	return okX && okY && (x == y || swapped(x) == y)
}

func uuidBytes(s string) (id [16]byte, ok bool) {
	raw, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(raw) != len(id) {
		return id, false
	}
	return [16]byte(raw), true
}

func swapped(u [16]byte) [16]byte {
	u[0], u[1], u[2], u[3] = u[3], u[2], u[1], u[0]
	u[4], u[5] = u[5], u[4]
	u[6], u[7] = u[7], u[6]
	return u
}
