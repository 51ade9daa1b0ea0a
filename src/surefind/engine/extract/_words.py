"""Common English words. None of them alone is a name, and none of `COMMON` is part of a noun phrase."""

from __future__ import annotations

COMMON = frozenset(
    """
a about above according across after afterwards again against ago all almost alone along already also although always
am among an and another any anybody anyone anything are around as ask asked at away back based be became because become
becomes been before began behind being below best better between both but by call called came can cannot check
click come comes could current currently did do does doing done down due during each early either else enough ensure
especially etc even ever every everyone everything example except few find finally first five follow followed following
for former formerly found four from full further gave general get gets give given gives go goes going gone good
got had has have having he hence her here hers herself high him himself his how however if in include included
includes including indeed instead into is it its itself just keep known large last late later latter least less let
like likely list little long look made main mainly make makes making many may maybe me meanwhile might mine more
moreover most mostly much must my myself near need needs neither never nevertheless new next no nobody none nor not
note nothing now number of off often old on once one ones only onto open or originally other others otherwise our ours
out over own part per perhaps please prior put rather re real really same saw say second see seem seemed seems
several shall she should show shown since six small so some somehow someone something sometimes somewhere soon start
started still such take taken takes ten than that the their theirs them themselves then there thereafter thereby
therefore these they thing this those though three through throughout thus to together too took toward towards two
under unless unlike until up upon us use used uses using usually various very via was we well went were what whatever
when whenever where whereas wherever whether which while who whoever whole whom whose why will with within without work
would yes yet you your yours yourself
""".split()
)
INSTRUCTIONS = frozenset(
    """
accept add allow apply approve assign avoid cancel change choose close complete configure confirm connect contact copy
create define delete deploy describe disable download edit enable enter execute export fill fix go help hi ignore import
install log login logout manage mark merge monitor move navigate no ok okay optional paste press print proceed provide
publish pull push read record refresh reject release remember remove rename replace report request require reset resolve
restart restore retry return review rotate run save scroll search select send set setup sign skip sort stop store submit
switch sync tell test tick tip todo try turn type uncheck undo update upgrade upload use using verify view visit wait
warning watch write yes
""".split()
)
"""Words that begin an instruction or label a button. They are no names, but may be part of a noun phrase."""
