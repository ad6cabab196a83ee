package redfish

import (
	"strings"
	"testing"
)

const (
	otherUUID = "4c4c4544-0051-3310-8051-b7c04f4e3133"
	zeroUUID  = "00000000-0000-0000-0000-000000000000"
)

// TestWhoseSystemItIs lists, for what each side reports, whether it is one
// machine.
func TestWhoseSystemItIs(t *testing.T) {
	for _, c := range []struct {
		name                 string
		own, ownSerial, word string
		uuid, serial, sku    string
		same                 bool
		says                 string
	}{
		{"equal UUIDs", testUUID, "A", "", testUUID, "B", "", true, ""},
		{"equal UUIDs in the other order of bytes", testUUID, "", "", "44454c4c-5100-1033-8051-b7c04f4e3132", "", "", true, ""},
		{"no UUID of its own on the BMC's side", testUUID, "A1", "", zeroUUID, "a1 ", "", true, ""},
		{"all F", testUUID, "A1", "", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "A1", "", true, ""},
		{"a vendor's default", testUUID, "A1", "", "03000200-0400-0500-0006-000700080009", "A1", "", true, ""},
		{"a vendor's default in the other order", testUUID, "A1", "", "00020003-0004-0005-0006-000700080009", "A1", "", true, ""},
		{"words in place of a UUID", testUUID, "A1", "", "Not Available", "A1", "", true, ""},
		{"no UUID", testUUID, "A1", "", "", "A1", "", true, ""},
		{"no UUID of its own on the host's side", zeroUUID, "A1", "", testUUID, "A1", "", true, ""},
		{"the service tag in SKU", "", "TAG", "", testUUID, "CN0BOARD", "TAG", true, ""},
		{"another serial number, no UUIDs", zeroUUID, "A1", "", zeroUUID, "A2", "", false, "serial number A2"},
		{"contradicting UUIDs, equal serial numbers", testUUID, "A1", "", otherUUID, "A1", "", false, "--uuid"},
		{"contradicting UUIDs", testUUID, "A1", "", otherUUID, "A2", "", false, "is expected"},
		{"placeholders on both sides", zeroUUID, "Default string", "", zeroUUID, "Default string", "", false, "systemID"},
		{"ten blanks", testUUID, "A1", "", zeroUUID, "          ", "", false, "systemID"},
		{"zeros as serial number", zeroUUID, "0000000", "", "", "0000000", "", false, "systemID"},
		{"a person's word, the UUID", testUUID, "A1", otherUUID, otherUUID, "A2", "", true, ""},
		{"a person's word, the serial number", testUUID, "A1", "a2", otherUUID, "A2", "", true, ""},
		{"a person's word goes before what the host says", testUUID, "A1", otherUUID, testUUID, "A1", "", false, "systemID says"},
		{"a person's word is no wild card", testUUID, "A1", zeroUUID, zeroUUID, "", "", false, "systemID says"},
	} {
		e := Endpoint{UUID: c.own, Serial: c.ownSerial, SystemID: c.word}
		err := e.meant(c.uuid, c.serial, c.sku)
		if (err == nil) != c.same || err != nil && reasonOf(err) != WrongServer {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v does not say %q", c.name, err, c.says)
		}
	}
}

func TestNothingIsComparedWithAnEndpointThatSaysNothing(t *testing.T) {
	if err := (Endpoint{}).meant(testUUID, "A1", ""); err != nil {
		t.Error(err)
	}
}
