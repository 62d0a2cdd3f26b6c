// A notebook's page: the cards and inspectors in its outputs, which have no timeline that is live.

import { CARDS, INSPECTORS, enliven } from "../card/card";

for (const each of document.querySelectorAll<HTMLElement>(`${CARDS}, ${INSPECTORS}`)) enliven(each, {});
